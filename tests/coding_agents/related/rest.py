"""Media in words, routes, context management, conversations, and users behind a key."""

from tests.coding_agents.related.words import (
    CHAT,
    CLAUDE,
    COMPACT,
    QWEN,
    READ_TOOL,
    RESPONSES,
    SEARCH,
    UPSTREAM,
    WEB,
    WITH_WEB,
    Json,
    bearer,
    call,
    case,
    get,
    image,
    keys,
    make_image,
    messages,
    models,
    ok,
    post,
    turn,
)

CASES: dict[str, Json] = {}
DESCRIBED = models(qwen3={"describe_media_with": "vl", "profile": {"media": []}}, vl={"profile": {"media": ["image"]}})
LOOK = {"type": "text", "text": "What is it?"}


def seen(words: str, **asked: object) -> Json:
    return {"answer": {"model": "vl", "text": words}, "asked": {"model": "vl", **asked}}


def told(text: str = "ok", **asked: object) -> Json:
    return {"answer": {"model": "qwen3", "text": text}, "asked": {"model": "qwen3", **asked}}


# -- media in words

CASES["E_seeing_models_are_left_alone"] = case(
    models(qwen3={"describe_media_with": "vl", "profile": {"media": ["image"]}}, vl={"profile": {"media": ["image"]}}),
    [messages([image(1), LOOK])],
    [ok()],
    [told(contains=["image_url"], lacks=["<image 1"])],
)
CASES["E_tool_result"] = case(
    DESCRIBED,
    [
        messages(
            [
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": [
                                {"type": "text", "text": "before"},
                                image(2),
                                {"type": "text", "text": "after"},
                            ],
                        }
                    ],
                },
            ],
            tools=[READ_TOOL],
        ),
        post(
            RESPONSES,
            {
                "input": [
                    {"role": "user", "content": "look"},
                    {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": "{}"},
                    {
                        "type": "function_call_output",
                        "call_id": "t1",
                        "output": [
                            {"type": "input_text", "text": "before"},
                            {"type": "input_image", "image_url": f"data:image/png;base64,{make_image(2)}"},
                        ],
                    },
                ]
            },
        ),
    ],
    [ok(), ok()],
    [
        seen("A red\nsquare <b>."),
        told(contains=["<image 1: A red square <b>.>", "before", "after"], lacks=["image_url"]),
        told(contains=["<image 1: A red square <b>.>"]),
    ],
)
CASES["E_chat_and_gemini"] = case(
    DESCRIBED,
    [
        post(
            CHAT,
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{make_image(3)}"}},
                            {"type": "text", "text": "x"},
                        ],
                    }
                ],
                "stream": True,
            },
        ),
        {
            "method": "POST",
            "path": "/v1beta/models/qwen3:generateContent",
            "headers": {},
            "body": {
                "contents": [
                    {
                        "role": "user",
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": make_image(3)}}, {"text": "x"}],
                    }
                ]
            },
        },
    ],
    [ok(), ok()],
    [seen("Red."), told(contains=["<image 1: Red.>"]), told(contains=["<image 1: Red.>"])],
)
CASES["E_more_than_max_items"] = case(
    {**DESCRIBED, "media_descriptions": {"max_items": 1}},
    [messages([image(4), image(5), LOOK])],
    [ok(parley={"warnings": "<any>"})],
    [seen("Newest."), told(contains=["[image 1 could not be described", "<image 2: Newest.>"])],
)
CASES["E_not_kept_after_a_failure"] = case(
    DESCRIBED,
    [messages([image(6), LOOK]), messages([image(6), LOOK])],
    [ok(), ok()],
    [
        {
            "answer": {"model": "vl", "status": 400, "body": {"error": {"message": "bad image"}}},
            "asked": {"model": "vl"},
        },
        told(contains=["[image 1 could not be described"]),
        seen("Second time."),
        told(contains=["<image 1: Second time.>"]),
    ],
)
CASES["E_rights_are_those_of_the_model"] = case(
    {**DESCRIBED, "keys": keys(a={"models": ["qwen3"]})},
    [messages([image(7), LOOK], headers=bearer("a")), messages([image(7), LOOK], model="vl", headers=bearer("a"))],
    [ok(usage={"input_tokens": 10, "output_tokens": 5}), {"status": 403}],
    [seen("Seven.", max_tokens="<number>", temperature=0, absent=["tools"]), told()],
)
CASES["E_numbers_stay_in_later_turns"] = case(
    DESCRIBED,
    [
        messages([image(8), LOOK]),
        messages(
            [
                {"role": "user", "content": [image(8), LOOK]},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": [image(9), image(8)]},
            ]
        ),
    ],
    [ok(), ok()],
    [
        seen("Eight."),
        told(),
        seen("Nine."),
        told(contains=["<image 1: Eight.>", "<image 2: Nine.>", "<image 3: Eight.>"]),
    ],
)
CASES["E_compaction_describes_too"] = case(
    DESCRIBED,
    [
        post(
            COMPACT,
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_image", "image_url": f"data:image/png;base64,{make_image(10)}"},
                            {"type": "input_text", "text": "x"},
                        ],
                    }
                ]
            },
        )
    ],
    [ok(object="response.compaction")],
    [seen("Ten."), told("SUM", contains=["<image 1: Ten.>"])],
)

# -- routes

ROUTES: Json = {
    "auto": {
        "use": "small",
        "rules": [
            {"when": {"header": {"x-claude-code-agent-id": "*"}}, "use": "sub"},
            {"when": {"media": ["image", "audio"], "format": "messages"}, "use": "eye"},
            {"when": {"thinking": False, "key": "b*"}, "use": "plain"},
            {"when": {"user_agent": "codex*"}, "use": "codex"},
            {"when": {"format": ["gemini", "chat_completions"]}, "use": "chat"},
        ],
        "aliases": ["gpt-*", "gpt-5-*"],
    },
    **{name: {"upstreams": ["up"]} for name in ("small", "sub", "plain", "codex", "chat")},
    "eye": {"upstreams": ["up"], "profile": {"media": ["image"]}},
}
ROUTED = {"upstreams": UPSTREAM, "models": ROUTES}


def routed(rule: str, **body: object) -> Json:
    return {"status": 200, "headers": {"x-parley-route": f"auto/{rule}"}, "body": body}


CASES["F_subagent"] = case(
    ROUTED,
    [
        messages(model="auto"),
        messages(model="auto", headers={"x-claude-code-agent-id": "agent-1"}),
        messages(model="auto", headers={"x-claude-code-agent-id": "agent-1"}),
        messages(model="auto"),
    ],
    [routed("default", model="auto"), routed("1"), routed("kept"), routed("kept")],
    [turn(model=name) for name in ("small", "sub", "sub", "small")],
)
CASES["F_wildcards_longest_wins"] = case(
    {
        "upstreams": UPSTREAM,
        "models": {
            "one": {"upstreams": ["up"], "aliases": ["claude-*", "a?c"]},
            "two": {"upstreams": ["up"], "aliases": ["claude-sonnet-*", "exact"]},
            "three": {"upstreams": ["up"], "aliases": ["*-sonnet-*", "claude-sonnet-4"]},
        },
    },
    [
        messages(model=name)
        for name in ("claude-opus-1", "claude-sonnet-5", "x-sonnet-5", "claude-sonnet-4", "a?c", "abc")
    ]
    + [get("/v1/models")],
    [
        *[ok()] * 5,
        {"status": 404},
        ok(data=[{"id": name} for name in ("one", "a?c", "two", "exact", "three", "claude-sonnet-4")]),
    ],
    [turn(model=name) for name in ("one", "two", "three", "three", "one")],
)
CASES["F_conditions"] = case(
    {**ROUTED, "keys": keys(a={}, b={})},
    [
        messages([image(1), LOOK], model="auto", headers=bearer("a", **{"x-claude-code-session-id": "i"})),
        post(RESPONSES, {"model": "auto", "input": "x", "reasoning": {"effort": "none"}}, bearer("b")),
        post(RESPONSES, {"model": "auto", "input": "x"}, bearer("a", **{"user-agent": "codex_exec/0.171.0"})),
        post(CHAT, {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "x"}]}, bearer("a")),
        post(CHAT, {"model": "small", "messages": [{"role": "user", "content": "x"}]}, bearer("a")),
    ],
    [
        routed("2", model="auto"),
        routed("3"),
        routed("4", model="auto"),
        routed("5", model="gpt-5-mini"),
        {"status": 200, "headers": {"x-parley-route": "<absent>"}},
    ],
    [turn(model=name) for name in ("eye", "plain", "codex", "chat", "small")],
)
CASES["F_count_and_list"] = case(
    {**ROUTED, "keys": keys(a={"models": ["auto"]}, c={"models": ["small"]})},
    [
        post(
            "/v1/messages/count_tokens",
            {"model": "auto", "messages": [{"role": "user", "content": "hi"}]},
            bearer("a", **CLAUDE),
        ),
        get("/v1/models/auto", bearer("a")),
        messages(model="small", headers=bearer("a")),
        messages(model="auto", headers=bearer("c")),
        messages(model="claude-parley-auto", headers=bearer("a")),
    ],
    [
        ok(input_tokens="<number>"),
        ok(id="auto"),
        {"status": 403},
        {"status": 403},
        routed("default", model="claude-parley-auto"),
    ],
    [turn(model="small")],
)
CASES["F_other_names_and_sessions"] = case(
    ROUTED,
    [
        messages(model="auto", headers={"x-claude-code-session-id": "s-a"}),
        messages([image(1), LOOK], model="auto", headers={"x-claude-code-session-id": "s-b"}),
        messages(model="auto", headers={"x-claude-code-session-id": "s-b"}),
        messages([image(1), LOOK], model="auto", headers={"x-claude-code-session-id": "s-a"}),
        messages(model="auto", headers={"x-claude-code-session-id": "s-a"}),
    ],
    [routed("default"), routed("2"), routed("kept"), {"status": 200}, {"status": 200}],
    [turn(model="small"), turn(model="eye"), turn(model="eye"), turn(), turn()],
)

CASES["F_moved_by_its_window"] = case(
    {
        "upstreams": UPSTREAM,
        "models": {
            "auto": {"use": "near", "rules": [{"when": {"tokens_above": 600}, "use": "far"}]},
            "near": {"upstreams": ["up"], "context_window": 500},
            "far": {"upstreams": ["up"], "context_window": 100000},
        },
    },
    [messages("hi", model="auto"), messages("word " * 1000, model="auto"), messages("hi", model="auto")],
    [routed("default"), routed("1"), routed("kept")],
    [turn(model=name) for name in ("near", "far", "far")],
)

# -- context management and conversations


def session(results: int, words: int = 200) -> list[Json]:
    said: list[Json] = [{"role": "user", "content": "Go."}]
    for number in range(1, results + 1):
        said.append(
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"n": number}}],
            }
        )
        said.append(
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": f"t{number}",
                        "content": f"RESULT-{number} " + "word " * words,
                    }
                ],
            }
        )
    return said


def edits(*given: Json) -> Json:
    return {"edits": list(given)}


CLEAR: Json = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "input_tokens", "value": 500},
    "keep": {"type": "tool_uses", "value": 1},
}
CASES["G_below_the_trigger"] = case(
    QWEN,
    [
        messages(session(2, 1), tools=[READ_TOOL], context_management=edits({"type": "clear_tool_uses_20250919"})),
        messages(session(2, 1), tools=[READ_TOOL]),
    ],
    [ok(context_management={"applied_edits": []}), ok(context_management=None)],
    [turn(contains=["RESULT-1", "RESULT-2"])] * 2,
)
CASES["G_unknown_edit"] = case(
    QWEN,
    [
        messages(context_management=edits({"type": "dream_20270101"}, CLEAR)),
        messages(context_management=edits(CLEAR, CLEAR)),
        messages(context_management=edits({**CLEAR, "keep": {"type": "tool_uses", "value": -1}})),
    ],
    [ok(context_management={"applied_edits": []}, parley={"warnings": "<any>"}), {"status": 400}, {"status": 400}],
    [turn()],
)
CASES["G_trigger_of_tool_uses"] = case(
    QWEN,
    [
        messages(
            session(4, 1),
            tools=[READ_TOOL],
            context_management=edits({**CLEAR, "trigger": {"type": "tool_uses", "value": 3}}),
        ),
        messages(
            session(4, 1),
            tools=[READ_TOOL],
            context_management=edits({**CLEAR, "trigger": {"type": "tool_uses", "value": 5}}),
        ),
        messages(
            session(4),
            tools=[READ_TOOL],
            context_management=edits({**CLEAR, "clear_at_least": {"type": "input_tokens", "value": 100000}}),
        ),
    ],
    [
        ok(
            context_management={
                "applied_edits": [
                    {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": "<number>"}
                ]
            }
        ),
        ok(context_management={"applied_edits": []}),
        ok(context_management={"applied_edits": []}),
    ],
    [
        turn(contains=["RESULT-4"], lacks=["RESULT-1", "RESULT-3"]),
        turn(contains=["RESULT-1"]),
        turn(contains=["RESULT-1"]),
    ],
)
CASES["G_count_after_the_edits"] = case(
    QWEN,
    [
        post(
            "/v1/messages/count_tokens",
            {"messages": session(4), "tools": [READ_TOOL], "context_management": edits(CLEAR)},
            CLAUDE,
        ),
        post("/v1/messages/count_tokens", {"messages": session(4), "tools": [READ_TOOL]}, CLAUDE),
    ],
    [
        ok(input_tokens="<number>", context_management={"original_input_tokens": "<number>"}),
        ok(input_tokens="<number>", context_management=None),
    ],
    [],
)
CASES["G_cleared_stays_cleared"] = case(
    QWEN,
    [
        messages(session(4), tools=[READ_TOOL], context_management=edits(CLEAR)),
        messages(
            [*session(4), {"role": "assistant", "content": "Done."}, {"role": "user", "content": "More."}],
            tools=[READ_TOOL],
            context_management=edits(CLEAR),
        ),
    ],
    [ok(), ok()],
    [
        turn("Done.", lacks=["RESULT-3"], contains=["RESULT-4"]),
        turn("x", lacks=["RESULT-3"], contains=["RESULT-4", "More."]),
    ],
)
THOUGHT: list[Json] = [
    {"role": "user", "content": "a"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "THOUGHT-1", "signature": "s"}, {"type": "text", "text": "one"}],
    },
    {"role": "user", "content": "b"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "THOUGHT-2", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a longer result"}]},
]
CASES["G_thinking_and_tools"] = case(
    QWEN,
    [
        messages(
            THOUGHT,
            tools=[READ_TOOL],
            context_management=edits(
                {"type": "clear_thinking_20251015"},
                {**CLEAR, "trigger": {"type": "tool_uses", "value": 0}, "keep": {"type": "tool_uses", "value": 0}},
            ),
        ),
    ],
    [
        ok(
            context_management={
                "applied_edits": [
                    {"type": "clear_thinking_20251015", "cleared_thinking_turns": 1},
                    {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 1},
                ]
            }
        )
    ],
    [turn(lacks=["THOUGHT-1"])],
)
COMPACT_EDIT: Json = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1000}}
LONG: list[Json] = [
    {"role": "user", "content": "OLD " + "word " * 3000},
    {"role": "assistant", "content": "ok"},
    {"role": "user", "content": "NEW"},
]
CASES["G_compact_pauses"] = case(
    QWEN,
    [
        messages(
            LONG,
            context_management=edits({**COMPACT_EDIT, "pause_after_compaction": True, "instructions": "ONLY-NAMES"}),
        )
    ],
    [
        ok(
            stop_reason="compaction",
            content=[{"type": "compaction", "content": "SUM-5"}],
            usage={"iterations": [{"type": "compaction"}]},
        )
    ],
    [turn("SUM-5", contains=["ONLY-NAMES"], absent=["tools"])],
)
CASES["G_compact_that_fails_goes_on"] = case(
    QWEN,
    [
        messages(LONG, context_management=edits(COMPACT_EDIT)),
        messages(
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "compaction", "content": "SUM-6"}]},
                {"role": "user", "content": "b"},
            ]
        ),
    ],
    [ok(content=[{"type": "text", "text": "fine"}], parley={"warnings": "<any>"}), ok()],
    [
        {"answer": {"status": 400, "body": {"error": {"message": "no"}}}, "asked": {}},
        turn("fine", contains=["OLD", "NEW"]),
        turn("x", contains=["SUM-6"]),
    ],
)
NEWS = {"calls": [call("web_search", {"query": "news"})]}
FOUND = [{"type": "server_tool_use"}, {"type": "web_search_tool_result"}, {"type": "text", "text": "rep"}]
CASES["G_compact_before_a_search"] = case(
    {**WITH_WEB, "keys": keys(a={"limits": {"requests_per_minute": 9}})},
    [
        messages(LONG, bearer("a"), tools=[SEARCH], context_management=edits(COMPACT_EDIT)),
        get("/v1/usage", bearer("a")),
    ],
    [
        ok(
            content=[{"type": "compaction", "content": "SUM-8"}, *FOUND],
            usage={
                "input_tokens": 30,
                "server_tool_use": {"web_search_requests": 1},
                "iterations": [{"type": "compaction"}, {"type": "message"}],
            },
        ),
        ok(data=[{"requests": 1, "input_tokens": 30, "searches": 1}]),
    ],
    [
        turn("SUM-8", contains=["OLD"], absent=["tools"]),
        turn(NEWS, contains=["SUM-8", "NEW"], lacks=["OLD"]),
        turn("rep", contains=["SUM-8", "The first page."], lacks=["OLD"]),
    ],
    mcp={"web": WEB},
    mcp_calls=[["web", "search", {"query": "news"}]],
)
CASES["G_compact_before_a_search_pauses_and_fails"] = case(
    WITH_WEB,
    [
        messages(LONG, tools=[SEARCH], context_management=edits({**COMPACT_EDIT, "pause_after_compaction": True})),
        messages(LONG, tools=[SEARCH], context_management=edits(COMPACT_EDIT)),
    ],
    [
        ok(stop_reason="compaction", content=[{"type": "compaction", "content": "SUM-9"}]),
        ok(content=FOUND, parley={"warnings": "<any>"}),
    ],
    [
        turn("SUM-9"),
        {"answer": {"status": 400, "body": {"error": {"message": "no"}}}, "asked": {}},
        turn(NEWS, contains=["OLD"]),
        turn("rep"),
    ],
    mcp={"web": WEB},
    mcp_calls=[["web", "search", {"query": "news"}]],
)
STATE: Json = {"state": {"url": "<STATE>"}}
CASES["G_conversation_errors_and_rights"] = case(
    {**QWEN, **STATE, "keys": keys(a={}, b={})},
    [
        post("/v1/conversations", {"metadata": {"topic": "x"}}, bearer("a")),
        get("/v1/conversations/<id_of:0>", bearer("b")),
        post(RESPONSES, {"input": "x", "conversation": "<id_of:0>"}, bearer("b")),
        post(
            RESPONSES,
            {"input": "FIRST", "conversation": {"id": "<id_of:0>"}, "stream": False, "store": False},
            bearer("a"),
        ),
        post(RESPONSES, {"input": "boom", "conversation": "<id_of:0>"}, bearer("a")),
        post(RESPONSES, {"input": "SECOND", "conversation": "<id_of:0>"}, bearer("a")),
        get("/v1/conversations/<id_of:0>/items?order=asc&limit=2", bearer("a")),
        get("/v1/conversations/conv_none/items", bearer("a")),
    ],
    [
        ok(object="conversation", metadata={"topic": "x"}),
        {"status": 404},
        {"status": 404},
        ok(conversation={"id": "<text>"}),
        {"status": 502},
        ok(status="completed"),
        ok(data=[{"role": "user", "content": [{"text": "FIRST"}]}, {"role": "assistant"}], has_more=True),
        {"status": 404},
    ],
    [
        turn("ANSWER-1"),
        turn({"status": 500, "body": {"error": {"message": "boom"}}}),
        turn("x", contains=["FIRST", "ANSWER-1", "SECOND"], lacks=["boom"]),
    ],
)
CASES["G_conversation_without_state"] = case(
    {**QWEN, "state": {"url": "null:"}},
    [post("/v1/conversations", {}), post(RESPONSES, {"input": "x", "conversation": "conv_1"})],
    [{"status": 404}, {"status": 400, "body": {"error": {"message": {"<has>": "state.url"}}}}],
    [],
)
CASES["G_conversation_items"] = case(
    {**QWEN, **STATE},
    [
        post("/v1/conversations", {"items": [{"type": "message", "role": "user", "content": "EARLIER"}] * 21}),
        post("/v1/conversations", {"items": [{"type": "message", "role": "user", "content": "EARLIER"}]}),
        post("/v1/conversations/<id_of:1>/items", {"items": [{"type": "message", "role": "user", "content": "ADDED"}]}),
        post("/v1/conversations/<id_of:1>", {"metadata": {"a": "b"}}),
        post(RESPONSES, {"input": "x", "conversation": "<id_of:1>", "stream": False}),
    ],
    [{"status": 400}, ok(object="conversation"), ok(data=[{"type": "message"}]), ok(metadata={"a": "b"}), ok()],
    [
        turn(
            "y",
            messages=[
                {"role": "user", "content": {"<has>": "EARLIER"}},
                {"role": "user", "content": {"<has>": "ADDED"}},
                {"role": "user"},
            ],
        )
    ],
)
CASES["G_conversation_items"]["expect"].pop("upstream")

# -- users behind a key


def chat(headers: Json, **body: object) -> Json:
    return post(CHAT, {"messages": [{"role": "user", "content": "hi"}], **body}, headers)


ONE_EACH: Json = {"limits_per_user": {"requests_per_minute": 1}}
CASES["K_user_of_the_body"] = case(
    {**QWEN, "keys": keys(a={"users": "user", **ONE_EACH})},
    [
        chat(bearer("a"), user="ann"),
        chat(bearer("a"), user="ann"),
        chat(bearer("a"), user="bob"),
        post(RESPONSES, {"input": "x", "safety_identifier": "ann"}, bearer("a")),
        post(RESPONSES, {"input": "x", "safety_identifier": "cat"}, bearer("a")),
    ],
    [
        ok(),
        {"status": 429, "body": {"error": {"message": {"<has>": "user"}}}},
        ok(),
        {"status": 429},
        ok(),
    ],
    [turn(absent=["safety_identifier"])] * 3,
)
CASES["K_metadata_and_long_names"] = case(
    {**QWEN, "keys": keys(a={"users": "metadata.user_id", **ONE_EACH})},
    [
        messages(headers=bearer("a"), metadata={"user_id": name})
        for name in ("x" * 200, "x" * 128 + "y", "user_1_account_acc-1_session_s-1", "user_1_account_acc-1_session_s-2")
    ],
    [ok(), {"status": 429}, ok(), {"status": 429}],
    [turn(absent=["metadata"])] * 2,
)
CASES["K_budget_of_a_user"] = case(
    {
        **models(qwen3={"price": {"input": 1000000, "output": 1000000}}),
        "keys": keys(a={"users": "header:x-user", "limits_per_user": {"spend_per_day": 0.000001}}),
    },
    [chat(bearer("a", **{"x-user": name})) for name in ("ann", "ann", "bob")],
    [ok(), {"status": 402, "body": {"error": {"message": {"<has>": "user"}}}}, ok()],
    [turn()] * 2,
)
CASES["K_usage_for_the_key_itself"] = case(
    {**QWEN, "keys": keys(a={"users": "header:x-user"}, b={})},
    [
        chat(bearer("a", **{"x-user": "ann"})),
        get("/v1/usage?group_by=user", bearer("a")),
        get("/v1/usage?group_by=user", bearer("b")),
    ],
    [ok(), ok(data={"<contains>": [{"user": "ann", "requests": 1}]}), ok(data=[])],
    [turn()],
)
CASES["K_header_on_other_paths"] = case(
    {**QWEN, "keys": keys(a={"users": "header:x-user", **ONE_EACH})},
    [
        messages(headers=bearer("a", **{"x-user": "ann"})),
        post(COMPACT, {"input": "x"}, bearer("a", **{"x-user": "ann"})),
        post(
            "/v1/messages/count_tokens",
            {"messages": [{"role": "user", "content": "x"}]},
            bearer("a", **{"x-user": "ann"}),
        ),
    ],
    [ok(), {"status": 429}, ok()],
    [turn()],
)
