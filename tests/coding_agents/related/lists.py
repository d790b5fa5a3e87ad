"""Lists of models, ids, compaction, and what Claude Code expects of a gateway."""

from tests.coding_agents.related.words import (
    CHAT,
    CLAUDE,
    CODEX_LIST,
    COMPACT,
    QWEN,
    READ_FUNCTION,
    RESPONSES,
    UPSTREAM,
    Json,
    bearer,
    case,
    get,
    keys,
    messages,
    models,
    ok,
    post,
    socket,
    turn,
)

CASES: dict[str, Json] = {}
TOOL = {"type": "object", "properties": {}}
SUMMARY = {"type": "compaction", "encrypted_content": "<seal>"}


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


# -- Codex's list

CASES["A1_window_and_images"] = case(
    models(
        small={"context_window": 32768, "profile": {"media": ["image"], "max_output_tokens": 4096}},
        large={"context_window": 32768, "profile": {"media": [], "max_output_tokens": 16384}},
        described={"context_window": 100000, "profile": {"media": []}, "describe_media_with": "small"},
        limits={"profile": {"max_input_tokens": 20000, "max_output_tokens": 10000}},
    ),
    [get(CODEX_LIST)],
    [
        ok(
            models=[
                {
                    "slug": "small",
                    "context_window": 32768,
                    "auto_compact_token_limit": 28672,
                    "input_modalities": ["text", "image"],
                },
                {
                    "slug": "large",
                    "context_window": 32768,
                    "auto_compact_token_limit": 24576,
                    "input_modalities": ["text"],
                },
                {
                    "slug": "described",
                    "context_window": 100000,
                    "auto_compact_token_limit": 91808,
                    "input_modalities": ["text", "image"],
                },
                {"slug": "limits", "context_window": 30000, "auto_compact_token_limit": 22500},
            ],
            data=[{"id": "small", "context_window": 32768}, {"id": "large"}, {"id": "described"}, {"id": "limits"}],
        )
    ],
    [],
    upstream_models=[{"id": "other"}],
)
CASES["A1_smallest_window_of_the_servers"] = case(
    {
        "upstreams": {**UPSTREAM, "other": {"base_url": "<UPSTREAM>/other/v1", "kind": "vllm"}},
        "models": {"qwen3": {"upstreams": ["up", "other"]}},
    },
    [get(CODEX_LIST)],
    [ok(models=[{"slug": "qwen3", "context_window": 16000}])],
    [],
    upstream_models=[{"id": "qwen3", "meta": {"n_ctx": 16000}}],
)
CASES["A1_only_what_the_key_may_use"] = case(
    {
        **models(small={"aliases": ["s", "claude-*"]}, big={}),
        "keys": keys(a={"models": ["small"]}, b={}),
    },
    [get(CODEX_LIST, bearer("a")), get(CODEX_LIST), get(CODEX_LIST, bearer("b")), get(CODEX_LIST, bearer("x"))],
    [
        ok(models=[{"slug": "small", "priority": 0}], data=[{"id": "small"}]),
        {"status": 401},
        ok(models=[{"slug": "small"}, {"slug": "big", "priority": 1}]),
        {"status": 401},
    ],
    [],
)
CASES["A1_any_version_and_etag"] = case(
    models(qwen3={"display_name": "Qwen"}),
    [
        get("/v1/models?client_version="),
        get("/v1/models?client_version=x&limit=5"),
        get("/v1/models", {"originator": "codex_exec"}),
    ],
    [
        {
            "status": 200,
            "headers": {"etag": "<text:tag>"},
            "body": {"models": [{"slug": "qwen3", "display_name": "Qwen"}]},
        },
        {"status": 200, "headers": {"etag": "<text:tag>"}, "body": {"models": [{"slug": "qwen3"}]}},
        ok(models="<absent>", data=[{"id": "qwen3"}]),
    ],
    [],
)
CASES["A1_virtual_models_are_entries"] = case(
    {
        "upstreams": UPSTREAM,
        "models": {
            "auto": {"use": "text", "rules": [{"when": {"media": "image"}, "use": "eye"}]},
            "text": {"upstreams": ["up"], "context_window": 40000, "profile": {"media": []}},
            "eye": {"upstreams": ["up"], "context_window": 9000, "profile": {"media": ["image"]}},
        },
    },
    [get(CODEX_LIST)],
    [
        ok(
            models=[
                {"slug": "auto", "context_window": 40000, "input_modalities": ["text", "image"]},
                {"slug": "text", "input_modalities": ["text"]},
                {"slug": "eye", "context_window": 9000},
            ]
        )
    ],
    [],
)

CASES["A1_etag_by_rights_and_in_the_socket"] = case(
    {**models(small={}, big={}), "keys": keys(a={"models": ["small"]}, b={}, c={"models": ["small"]})},
    [
        *[get(CODEX_LIST, bearer(name)) for name in ("a", "b", "c")],
        post(RESPONSES, {"model": "small", "input": "x"}, bearer("a", originator="codex_exec")),
        post(RESPONSES, {"model": "small", "input": "x"}, bearer("a")),
        socket(headers=bearer("a", originator="codex_exec")),
        socket(headers=bearer("b")),
    ],
    [
        {"status": 200, "headers": {"etag": "<id:a>"}},
        {"status": 200, "headers": {"etag": "<id:b>"}},
        {"status": 200, "headers": {"etag": "<id:a>"}},
        {"status": 200, "headers": {"x-models-etag": "<id:a>"}},
        {"status": 200, "headers": {"x-models-etag": "<absent>"}},
        {"status": 101, "headers": {"x-models-etag": "<id:a>"}},
        {"status": 101, "headers": {"x-models-etag": "<absent>"}},
    ],
    [turn(), turn()],
)

# -- Claude Code's ids

CASES["A2_id_is_resolved"] = case(
    QWEN,
    [messages(model="claude-parley-qwen3", stream=stream) for stream in (False, True)]
    + [
        post(
            "/v1/messages/count_tokens",
            {"model": "claude-parley-qwen3", "messages": [{"role": "user", "content": "hi"}]},
            CLAUDE,
        )
    ],
    [
        ok(model="claude-parley-qwen3"),
        {
            "status": 200,
            "events": [
                {"type": "message_start", "message": {"model": "claude-parley-qwen3"}},
                *[{"type": "<any>"}] * 3,
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                {"type": "message_stop"},
            ],
        },
        ok(input_tokens="<number>"),
    ],
    [turn(model="qwen3"), turn(model="qwen3")],
)
CASES["A2_rights_and_404"] = case(
    {**models(small={}, big={}), "keys": keys(a={"models": ["small"]}, b={})},
    [
        messages(model="claude-parley-small", headers=bearer("a")),
        messages(model="claude-parley-big", headers=bearer("a")),
        messages(model="claude-parley-none", headers=bearer("b")),
        get("/v1/models/claude-parley-none", bearer("b", **CLAUDE)),
        get("/v1/models?limit=1000", bearer("a", **{"user-agent": "claude-code/2.1.332"})),
    ],
    [
        ok(model="claude-parley-small"),
        {"status": 403, "body": {"error": {"type": "permission_error"}}},
        {"status": 404, "body": {"error": {"type": "not_found_error"}}},
        {"status": 404, "body": {"error": {"code": "model_not_found"}}},
        ok(data=[{"id": "claude-parley-small", "display_name": "small"}], first_id="claude-parley-small"),
    ],
    [turn(model="small")],
)
CASES["A2_pages_of_the_list"] = case(
    models(one={}, **{"Claude-two": {}}, three={"display_name": "Third"}),
    [
        get(f"/v1/models?{query}", {"user-agent": "claude-cli/2.1.1"})
        for query in ("limit=2", "limit=2&after_id=Claude-two", "limit=1&before_id=claude-parley-three")
    ],
    [
        ok(
            data=[{"id": "claude-parley-one"}, {"id": "Claude-two"}],
            first_id="claude-parley-one",
            last_id="Claude-two",
            has_more=True,
        ),
        ok(data=[{"id": "claude-parley-three", "display_name": "Third"}], has_more=False),
        ok(data=[{"id": "Claude-two"}], first_id="Claude-two", last_id="Claude-two"),
    ],
    [],
)
CASES["A2_id_of_an_alias"] = case(
    models(qwen3={"aliases": ["fast"]}),
    [
        messages(model="claude-parley-fast"),
        post(CHAT, {"model": "claude-parley-fast", "messages": [{"role": "user", "content": "hi"}]}),
    ],
    [ok(model="claude-parley-fast"), ok(model="claude-parley-fast")],
    [turn(model="qwen3")] * 2,
)
CASES["A2_switched_off"] = case(
    {**QWEN, "agents": {"claude_ids": False}},
    [get("/v1/models?limit=1000", {"user-agent": "claude-code/2.1.332"})],
    [ok(data=[{"id": "qwen3"}])],
    [],
)

# -- compaction

CASES["A3_previous_response"] = case(
    QWEN,
    [
        post(RESPONSES, {"input": "FIRST", "store": True}),
        post(
            COMPACT,
            {"previous_response_id": "<id_of:0>", "input": "SECOND", "stream": True, "instructions": "Be brief."},
        ),
        post(COMPACT, {"previous_response_id": "<id_of:0>"}),
    ],
    [
        ok(status="completed"),
        ok(
            object="response.compaction",
            output=[
                {"role": "user", "content": [{"type": "input_text", "text": "FIRST"}]},
                {"role": "user", "content": [{"type": "input_text", "text": "SECOND"}]},
                SUMMARY,
            ],
            parley={"warnings": "<any>"},
            usage={"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        ),
        ok(output=[{"role": "user", "content": [{"type": "input_text", "text": "FIRST"}]}, SUMMARY]),
    ],
    [turn("ANSWER-1"), turn("SUM", contains=["FIRST", "ANSWER-1", "SECOND"]), turn("SUM")],
)
CASES["A3_trigger_has_one_item"] = case(
    QWEN,
    [
        post(
            RESPONSES,
            {
                "input": [user("work"), {"type": "compaction_trigger"}],
                "store": False,
                "stream": stream,
                "tools": [READ_FUNCTION],
            },
        )
        for stream in (True, False)
    ],
    [
        {
            "status": 200,
            "events": [
                {"type": "response.created"},
                {"type": "response.in_progress"},
                {"type": "response.output_item.added", "item": {"type": "compaction"}},
                {"type": "response.output_item.done", "item": SUMMARY},
                {"type": "response.completed", "response": {"status": "completed", "output": [SUMMARY]}},
            ],
        },
        ok(status="completed", output=[SUMMARY]),
    ],
    [turn("SUM")] * 2,
)
CASES["A3_only_the_newest_words"] = case(
    {**QWEN, "responses": {"compact_user_tokens": 60}},
    [post(COMPACT, {"input": [user("OLD " + "word " * 200), {"role": "assistant", "content": "ok"}, user("NEW")]})],
    [ok(output=[{"role": "user", "content": [{"type": "input_text", "text": "NEW"}]}, SUMMARY])],
    [turn("SUM")],
)
CASES["A3_a_server_without_it_is_asked_once"] = case(
    {
        "upstreams": {"rs": {"base_url": "<UPSTREAM>/v1", "api": "responses", "kind": "openai"}},
        "models": {"qwen3": {"upstreams": ["rs"]}},
    },
    [post(COMPACT, {"input": "x"})] * 2,
    [ok(output=[{"role": "user"}, SUMMARY])] * 2,
    [
        {
            "answer": {"path": "/v1/responses/compact", "status": 405, "body": {"error": {"message": "no"}}},
            "asked": {"path": "/v1/responses/compact"},
        },
        *[
            {
                "answer": {
                    "body": {
                        "id": "resp_1",
                        "object": "response",
                        "status": "completed",
                        "output": [
                            {
                                "type": "message",
                                "role": "assistant",
                                "content": [{"type": "output_text", "text": "SUM", "annotations": []}],
                            }
                        ],
                        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
                    }
                },
                "asked": {"path": "/v1/responses"},
            }
        ]
        * 2,
    ],
)
CASES["A3_methods_and_rights"] = case(
    {**models(qwen3={}, big={}), "keys": keys(a={"models": ["qwen3"]})},
    [
        get(COMPACT, bearer("a")),
        get(COMPACT, bearer("a"), "DELETE"),
        post(COMPACT, {"model": "big", "input": "x"}, bearer("a")),
        post(COMPACT, {"input": "x"}),
        post(COMPACT, {"input": "x"}, bearer("a")),
    ],
    [{"status": 405}, {"status": 405}, {"status": 403}, {"status": 401}, ok(object="response.compaction")],
    [turn("SUM")],
)
CASES["A3_limits_count_it_once"] = case(
    {**QWEN, "keys": keys(a={"limits": {"requests_per_minute": 1}})},
    [post(COMPACT, {"input": "x"}, bearer("a")), post(COMPACT, {"input": "x"}, bearer("a"))],
    [ok(), {"status": 429}],
    [turn("SUM")],
)
CASES["A3_nothing_and_refusals_are_no_summary"] = case(
    QWEN,
    [post(COMPACT, {"input": "x"})] * 2,
    [
        {
            "status": 502,
            "headers": {"x-should-retry": "true"},
            "body": {"error": {"type": "server_error"}},
        }
    ]
    * 2,
    [turn("")] * 2 + [turn({"text": "half", "finish": "content_filter"})],
)
CASES["A3_nothing_and_refusals_are_no_summary"]["expect"].pop("upstream")
CASES["A3_summary_in_calls_of_history"] = case(
    QWEN,
    [
        post(
            COMPACT,
            {
                "input": [
                    user("read it"),
                    {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "RESULT-7"},
                    user("and now"),
                ]
            },
        ),
        post(
            RESPONSES, {"input": '<output:0>+[{"type": "message", "role": "user", "content": "go on"}]', "store": False}
        ),
    ],
    [ok(output=[{"role": "user"}, {"role": "user"}, SUMMARY]), ok(status="completed")],
    [
        turn("SUM-3", contains=["RESULT-7"]),
        turn("fine", contains=["SUM-3", "read it", "and now", "go on"], lacks=["RESULT-7"]),
    ],
)

# -- what Claude Code expects

DEFERRED = [
    {"name": "ToolSearch", "input_schema": TOOL},
    {"name": "WebFetch", "input_schema": TOOL, "defer_loading": True},
    {"name": "Other", "input_schema": TOOL, "defer_loading": True},
    {"name": "Edit", "input_schema": TOOL, "defer_loading": True},
]
FOUND = [
    {"role": "user", "content": "find"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {"query": "x"}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [
                    {"type": "tool_reference", "tool_name": "Edit"},
                    {"type": "tool_reference", "tool_name": "WebFetch"},
                ],
            }
        ],
    },
]
CASES["A5_deferred_tool_named"] = case(
    QWEN,
    [messages(FOUND, tools=DEFERRED)],
    [ok(stop_reason="end_turn")],
    [turn(tools=[{"function": {"name": name}} for name in ("ToolSearch", "Edit", "WebFetch")])],
)
CASES["A5_unknown_values_are_defaults"] = case(
    QWEN,
    [
        messages(thinking={"type": "enabled", "budget_tokens": 1024, "display": "updates"}),
        messages(output_config={"effort": "gigantic"}),
        messages(service_tier="other", speed="warp"),
        messages([{"role": "user", "content": [{"type": "text", "text": "hi", "brand_new": {"a": 1}}]}]),
    ],
    [ok(stop_reason="end_turn")] * 4,
    [turn()] * 4,
)
CASES["A5_heads_need_no_key"] = case(
    {**QWEN, "keys": keys(a={})},
    [
        get("/", method="HEAD"),
        get("/api/hello", method="HEAD"),
        get("/v1/models"),
        get("/v1/models", {"x-api-key": "key-a", **CLAUDE}),
    ],
    [{"status": 200}, {"status": 200}, {"status": 401}, ok(data=[{"id": "<any>"}])],
    [],
)
CASES["A5_statuses_that_the_agent_knows"] = case(
    {**models(qwen3={}, big={}), "keys": keys(a={"models": ["qwen3"]}), "cache": {"url": "null:"}},
    [messages(headers=bearer("a")) for _ in range(4)] + [messages(model="big", headers=bearer("a"))],
    [
        {"status": 402, "headers": {"x-should-retry": "false"}, "body": {"error": {"type": "billing_error"}}},
        {"status": 529, "headers": {"x-should-retry": "true"}, "body": {"error": {"type": "overloaded_error"}}},
        {"status": 502, "headers": {"x-should-retry": "true"}, "body": {"error": {"type": "api_error"}}},
        {"status": 400, "headers": {"x-should-retry": "false"}, "body": {"error": {"type": "invalid_request_error"}}},
        {"status": 403, "body": {"error": {"type": "permission_error"}}},
    ],
    [turn({"status": status, "body": {"error": {"message": "no"}}}) for status in (402, 503, 500, 400)],
)
CASES["A5_counting_is_not_limited"] = case(
    {**QWEN, "keys": keys(a={"limits": {"requests_per_minute": 1}})},
    [
        post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "foo"}]}, bearer("a", **CLAUDE))
        for _ in range(5)
    ],
    [ok(input_tokens="<number>")] * 5,
    [],
)
CASES["A5_a_call_without_its_result"] = case(
    QWEN,
    [
        messages(
            [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]},
                {"role": "user", "content": "stop"},
            ]
        ),
        post(
            RESPONSES,
            {
                "input": [
                    user("go"),
                    {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{}"},
                    user("stop"),
                ]
            },
        ),
        post(
            CHAT,
            {
                "messages": [
                    {"role": "user", "content": "go"},
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
                        ],
                    },
                    {"role": "user", "content": "stop"},
                ]
            },
        ),
    ],
    [ok(), ok(), ok()],
    [turn(messages=[{"role": "user"}, {"role": "assistant"}, {"role": "tool"}, {"role": "user", "content": "stop"}])]
    * 3,
)
CASES["A3_compact_again"] = case(
    QWEN,
    [
        post(COMPACT, {"input": "FIRST"}),
        post(COMPACT, {"input": '<output:0>+[{"type": "message", "role": "user", "content": "SECOND"}]'}),
        post(RESPONSES, {"input": '<output:1>+[{"type": "message", "role": "user", "content": "THIRD"}]'}),
    ],
    [ok(), ok(output=[{"role": "user"}, {"role": "user"}, SUMMARY]), ok()],
    [
        turn("SUM-1"),
        turn("SUM-2", contains=["SUM-1", "SECOND"]),
        turn("x", contains=["SUM-2", "FIRST", "SECOND", "THIRD"], lacks=["SUM-1"]),
    ],
)
