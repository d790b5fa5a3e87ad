"""The WebSocket of Responses."""

from tests.coding_agents.related.words import (
    QWEN,
    READ_FUNCTION,
    RESPONSES,
    UPSTREAM,
    WEB,
    WITH_WEB,
    Json,
    bearer,
    call,
    case,
    create,
    get,
    keys,
    models,
    ok,
    post,
    socket,
    turn,
)

CASES: dict[str, Json] = {}
CREATED, BEGUN = {"type": "response.created"}, {"type": "response.in_progress"}
MESSAGE: list[Json] = [
    {"type": "response.output_item.added", "item": {"type": "message"}},
    {"type": "response.content_part.added"},
    {"type": "response.output_text.delta"},
    {"type": "response.output_text.done"},
    {"type": "response.content_part.done"},
    {"type": "response.output_item.done"},
]
CALL: list[Json] = [
    {"type": "response.output_item.added", "item": {"type": "function_call", "name": "Read"}},
    {"type": "response.function_call_arguments.delta"},
    {"type": "response.function_call_arguments.done"},
    {"type": "response.output_item.done"},
]
DONE = {"type": "response.completed", "response": {"status": "completed"}}


def response(*parts: Json, end: Json = DONE, **every: str) -> list[Json]:
    return [{**event, **every} for event in (CREATED, BEGUN, *parts, end)]


def error(status: int, **fields: str) -> list[Json]:
    return [{"type": "error", "status": status, "error": {"message": "<text>", **fields}}]


HELLO = response(*MESSAGE)


def upgraded(*steps: list[Json]) -> Json:
    return {"status": 101, "frames": list(steps)}


CASES["A4_plain_get_is_405"] = case(
    QWEN, [get(RESPONSES), get(f"{RESPONSES}/")], [{"status": 405}, {"status": "<any>"}], []
)
CASES["A4_previous_in_the_socket"] = case(
    QWEN,
    [
        socket(
            create("FIRST", tools=[READ_FUNCTION], instructions="RULES-1"),
            {
                "send": {
                    "type": "response.create",
                    "model": "qwen3",
                    "store": False,
                    "previous_response_id": "<id_of:0>",
                    "input": [{"type": "function_call_output", "call_id": "call_1", "output": "RESULT-9"}],
                }
            },
            create("third", previous_response_id="<id_of:1>"),
            create("old", previous_response_id="<id_of:0>"),
        )
    ],
    [upgraded(response(*CALL), HELLO, HELLO, error(400, code="previous_response_not_found"))],
    [
        turn({"calls": [call("Read", "{}")]}, tools=[{"function": {"name": "Read"}}], contains=["RULES-1"]),
        turn("two", contains=["FIRST", "RESULT-9"], lacks=["RULES-1"], absent=["tools"]),
        turn("three", contains=["FIRST", "RESULT-9", "two", "third"]),
    ],
)
CASES["A4_processed_is_ignored"] = case(
    QWEN,
    [
        socket(
            create(),
            {"send": {"type": "response.processed", "response_id": "<id_of:0>"}, "expect_frames": 0},
            {"send": {"type": "response.steer", "response_id": "<id_of:0>"}},
            create("again"),
        )
    ],
    [upgraded(HELLO, [], error(400, code="unsupported"), HELLO)],
    [turn(), turn()],
)
CASES["A4_errors_of_the_server_leave_the_socket"] = case(
    QWEN,
    [socket(create("a"), create("b", stream_id="s"), create("c"), create("d"))],
    [
        upgraded(
            error(429),
            [{**error(402)[0], "stream_id": "s"}],
            [
                *response(*MESSAGE[:3], end={"type": "error"})[:-1],
                {"type": "response.failed", "response": {"status": "failed"}},
            ],
            HELLO,
        )
    ],
    [
        turn({"status": 429, "body": {"error": {"message": "slow"}}}),
        turn({"status": 402, "body": {"error": {"message": "Insufficient Balance"}}}),
        turn({"text": "half", "cut": True}),
        turn(),
    ],
)
CASES["A4_a_failed_response_replaces_nothing"] = case(
    QWEN,
    [
        socket(
            create("FIRST"),
            create("two", previous_response_id="<id_of:0>"),
            create("three", previous_response_id="<id_of:0>"),
        )
    ],
    [upgraded(HELLO, error(502), HELLO)],
    [
        turn("ANSWER-1"),
        turn({"status": 500, "body": {"error": {"message": "boom"}}}),
        turn("x", contains=["FIRST", "ANSWER-1", "three"]),
    ],
)
CASES["A4_stored_ones_are_known_elsewhere"] = case(
    QWEN,
    [
        socket(create("FIRST", store=True)),
        post(RESPONSES, {"input": "second", "previous_response_id": "<id_of:0.0>", "store": False}),
        get("/v1/responses/<id_of:0.0>"),
    ],
    [upgraded(HELLO), ok(status="completed"), ok(id="<text>", output=[{"type": "message"}])],
    [turn("ANSWER-1"), turn("x", contains=["FIRST", "ANSWER-1", "second"])],
)
CASES["A4_warm_up_with_mistakes"] = case(
    {**QWEN, "keys": keys(a={"limits": {"requests_per_minute": 1}})},
    [
        socket(
            create(generate=False, model="none"),
            create(generate=False, tools="x"),
            create(generate=False, tools=[READ_FUNCTION], stream_id="w"),
            create("hi", previous_response_id="<id_of:2>", generate=True, stream_id="w"),
            create("no more"),
            headers=bearer("a"),
        )
    ],
    [
        upgraded(
            error(404, code="model_not_found"),
            error(400, param="tools"),
            [{"type": "response.created", "stream_id": "w"}, {**DONE, "stream_id": "w"}],
            response(*MESSAGE, stream_id="w"),
            error(429),
        )
    ],
    [turn("x", absent=["generate"])],
)
CASES["A4_streams_side_by_side"] = case(
    QWEN,
    [
        socket(
            {**create("a", stream_id="s1"), "frames": 1},
            create("b", stream_id="s2"),
            create("c", stream_id="s1", previous_response_id="<id_of:0>"),
        )
    ],
    [
        upgraded(
            response(*MESSAGE, stream_id="s1"), response(*MESSAGE, stream_id="s2"), response(*MESSAGE, stream_id="s1")
        )
    ],
    [turn("A-1"), turn("B-1"), turn("x", contains=["A-1"], lacks=["B-1"])],
)
CASES["A4_rights_of_each_create"] = case(
    {**models(small={}, big={}), "keys": keys(a={"models": ["small"]})},
    [
        socket(create(model="claude-parley-small"), create(model="claude-parley-big"), headers=bearer("a")),
        socket(create(), headers={"authorization": "Bearer nobody"}),
        socket(create(model="small"), headers={"x-api-key": "key-a"}),
    ],
    [upgraded(HELLO, error(403)), {"status": 401}, upgraded(HELLO)],
    [turn(model="small"), turn(model="small")],
)
CASES["A4_search_in_a_socket"] = case(
    WITH_WEB,
    [
        socket(
            create("news", tools=[{"type": "web_search"}]),
            create("more", previous_response_id="<id_of:0>"),
        )
    ],
    [
        upgraded(
            response(
                {"type": "response.output_item.added", "item": {"type": "web_search_call"}},
                {"type": "response.web_search_call.in_progress"},
                {"type": "response.web_search_call.searching"},
                {"type": "response.web_search_call.completed"},
                {"type": "response.output_item.done"},
                {"type": "response.output_item.added", "item": {"type": "reasoning", "summary": []}},
                {"type": "response.output_item.done", "item": {"encrypted_content": "<seal>"}},
                *MESSAGE,
            ),
            HELLO,
        )
    ],
    [
        turn({"calls": [call("web_search", {"query": "news"})]}),
        turn("Two."),
        turn("x", contains=["The second page.", "Two.", "more"]),
    ],
    mcp_calls=[["web", "search", {"query": "news"}]],
    mcp={"web": WEB},
)
CASES["A4_compaction_in_a_socket"] = case(
    QWEN,
    [
        socket(
            create("FIRST"),
            {
                "send": {
                    "type": "response.create",
                    "model": "qwen3",
                    "store": False,
                    "previous_response_id": "<id_of:0>",
                    "input": [{"type": "compaction_trigger"}],
                }
            },
            create("next", previous_response_id="<id_of:1>"),
        )
    ],
    [
        upgraded(
            HELLO,
            response(
                {"type": "response.output_item.added", "item": {"type": "compaction"}},
                {"type": "response.output_item.done", "item": {"encrypted_content": "<seal>"}},
            ),
            HELLO,
        )
    ],
    [turn("ANSWER-1"), turn("SUM-3", contains=["FIRST", "ANSWER-1"]), turn("x", contains=["SUM-3", "next"])],
)
CASES["A4_routes_and_budgets"] = case(
    {
        "upstreams": UPSTREAM,
        "models": {
            "auto": {"use": "small", "rules": [{"when": {"header": {"x-plan": "paid"}}, "use": "big"}]},
            **{
                name: {"upstreams": ["up"], "price": {"input": 1_000_000, "output": 1_000_000}}
                for name in ("small", "big")
            },
        },
        "keys": keys(a={"limits": {"spend_per_day": 0.000001}}),
    },
    [
        socket(
            create(model="auto"),
            create(model="auto"),
            create(model="auto", generate=False),
            headers=bearer("a", **{"x-plan": "paid"}),
        )
    ],
    [upgraded(HELLO, error(402), [CREATED, DONE])],
    [turn(model="big")],
)
