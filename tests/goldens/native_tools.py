"""What is different where the server is sent the functions itself (the raw API)."""

from tests.goldens.expectations import Expected, answered, call_message, calls_of, reasoning_message, text_message, user

TOOL_CALL_ID = "results name their call in `tool_call_id`; `extra`, `id` and `name` are not sent"
STOPPED = "stop words are enforced wherever they appear, also where the server does not obey them"
NO_ID_WEATHER, NO_ID_TIME = "call_38bf42d1834bc40a7733ae66", "call_bdc753abe110b5e8b4cd9a5f"
WEATHER, TIME = ("get_weather", "{}"), ("get_time", "{}")

NATIVE: dict[str, Expected] = {
    "08_raw_args_none": Expected(
        output="arguments that are null are none yet",
        messages=[call_message(*WEATHER, "call_a")],
        finish_reason="tool_calls",
    ),
    "08_raw_choice_none": Expected(
        request="`function_choice` is `tool_choice`",
        output="no TypeError",
        body={"tool_choice": "none"},
        messages=[text_message("Hello")],
    ),
    "08_raw_content_after_tool": Expected(
        output="messages are in the order in which they began: a stream cannot take anything back",
        messages=[call_message(*WEATHER, "call_a"), text_message("late text"), reasoning_message("late reasoning")],
        finish_reason="tool_calls",
    ),
    "08_raw_delta": Expected(request="sent", output="functions stream as deltas too", messages=[text_message("Hello")]),
    "08_raw_error_retry": Expected(
        output="the error has the server's own status and message; the request may be sent again "
        "`max_retries` times (the golden's three attempts were its client library's)",
        error={"status": 502, "code": "server_error", "message": "boom (server error)"},
    ),
    "08_raw_function_choice": Expected(
        request="`function_choice` is `tool_choice`",
        output="no TypeError",
        body={"tool_choice": "auto"},
        messages=[text_message("Hello")],
    ),
    "08_raw_history_ids": Expected(
        request=TOOL_CALL_ID,
        body={
            "messages": [
                {"role": "system", "content": "sys"},
                user("Weather in Paris and time in CET?"),
                calls_of(
                    ("call_a", "get_weather", '{"city": "Paris"}'),
                    ("call_b", "get_time", '{"tz": "CET"}'),
                    content="Let me check.",
                    reasoning="need two tools",
                ),
                answered("call_a", "sunny"),
                answered("call_b", "12:00"),
            ]
        },
    ),
    "08_raw_history_no_ids": Expected(
        request="missing ids are derived from place, name and arguments; " + TOOL_CALL_ID,
        body={
            "messages": [
                user("q"),
                calls_of((NO_ID_WEATHER, *WEATHER), (NO_ID_TIME, *TIME)),
                answered(NO_ID_WEATHER, "a"),
                answered(NO_ID_TIME, "b"),
            ]
        },
    ),
    "08_raw_history_two_steps": Expected(
        request=TOOL_CALL_ID,
        body={
            "messages": [
                user("q"),
                calls_of(("x", *WEATHER)),
                answered("x", "a"),
                calls_of(("y", *TIME), reasoning="r2"),
                answered("y", "b"),
            ]
        },
    ),
    "08_raw_id_empty_second": Expected(
        output="a new index is a new call, and it gets an id",
        messages=[call_message(*WEATHER, "call_a"), call_message(*TIME, "<generated>")],
        finish_reason="tool_calls",
    ),
    "08_raw_interleaved": Expected(
        output="fragments go to the call of their index",
        messages=[
            call_message("get_weather", '{"city": "P"}', "call_a"),
            call_message("get_time", '{"tz": "C"}', "call_b"),
        ],
        finish_reason="tool_calls",
    ),
    "08_raw_name_late": Expected(
        output="a name may come late", messages=[call_message(*WEATHER, "call_a")], finish_reason="tool_calls"
    ),
    "08_raw_name_repeated": Expected(
        output="a name that is repeated is the same name",
        messages=[call_message("get_weather", '{"a": 1}', "call_a")],
        finish_reason="tool_calls",
    ),
    "08_raw_no_id_first": Expected(
        output="a call without id gets one",
        messages=[call_message(*WEATHER, "<generated>")],
        finish_reason="tool_calls",
    ),
    "08_raw_nonstream": Expected(
        request="sent", output="functions work in whole replies too", messages=[text_message("Hello")]
    ),
    "08_raw_parallel_flag": Expected(
        request="`parallel_function_calls` is `parallel_tool_calls`",
        output="no TypeError",
        body={"parallel_tool_calls": True},
        messages=[text_message("Hello")],
    ),
    "08_raw_stop": Expected(output=STOPPED, messages=[text_message("abc ")]),
    "08_raw_string_false": Expected(
        request="a flag is true or false: a string is refused",
        output="refused before anything is sent",
        requests=0,
        refused=("models.mock-model.defaults.use_raw_api",),
    ),
    "08_raw_text_toolcall": Expected(
        output="text stays text, unless the profile names the form of calls in the text (`text_tools`)"
    ),
}
