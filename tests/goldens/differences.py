"""Where this gateway does something else than Qwen-Agent did, what it does instead, and why.

A case that is not in `EXPECTED` must come out as in the golden, but for what is different in every case (`CONSTANT`).
"""

from tests.goldens.expectations import Expected, call_message, reasoning_message, text_message, user
from tests.goldens.media import MEDIA
from tests.goldens.native_tools import NATIVE, STOPPED
from tests.goldens.prompted_tools import PROMPTED

CONSTANT = (
    "`stream` is always true, even if the caller wants a whole reply: some models think only in a stream.",
    "`stream_options.include_usage` is set: Qwen-Agent discards the usage.",
    "No random `seed` is sent: with it, no cache would recognize a repeated request.",
    "Every call has a unique id: Qwen-Agent numbers the calls that it reads from text (`1`, `2`), or sets no id.",
    "An empty `extra` is left out.",
)

ASSEMBLED = "the reply is the assembled messages, not the last delta"
NOTHING_SAID = "an empty assistant turn is left out: servers refuse a message without content"
WEATHER = ("get_weather", "{}")

EXPECTED: dict[str, Expected] = (
    PROMPTED
    | MEDIA
    | NATIVE
    | {
        "01_delta_both_fields": Expected(output=ASSEMBLED, messages=[reasoning_message("r"), text_message("c")]),
        "01_delta_native_tools": Expected(
            output="deltas carry calls too; " + ASSEMBLED,
            messages=[
                reasoning_message("I should call tools."),
                text_message("Checking both."),
                call_message("get_weather", '{"city": "Paris"}', "call_a"),
                call_message("get_time", '{"tz": "CET"}', "call_b"),
            ],
            finish_reason="tool_calls",
        ),
        "01_n2_choices": Expected(
            request="one request has one reply: n is at most 1, and a configuration with more is refused",
            output="two replies are never mixed into one",
            requests=0,
            refused=("models.mock-model.defaults.n",),
        ),
        "01_plain_nonstream_toolcalls_dropped": Expected(
            output="calls of a whole reply are messages too",
            messages=[call_message(*WEATHER, "c1")],
            finish_reason="tool_calls",
        ),
        "01_plain_reasoning_field_alias": Expected(
            output="`reasoning` is another name for `reasoning_content`",
            messages=[reasoning_message("secret thoughts"), text_message("Hi!")],
        ),
        "01_plain_user_delta": Expected(
            output=ASSEMBLED, messages=[reasoning_message("Let me think."), text_message("The answer.")]
        ),
        "02_empty_assistant": Expected(request=NOTHING_SAID, body={"messages": [user("q1"), user("q2")]}),
        "02_empty_messages": Expected(
            output="an HTTP error that names the field, in place of the ValueError",
            error={"status": 422, "param": "messages"},
        ),
        "02_extra_name_unknown": Expected(
            request="`extra` is the caller's and never sent",
            body={"messages": [user("q1"), text_message("a1"), user("q2")]},
        ),
        "02_none_content": Expected(request=NOTHING_SAID, body={"messages": [user("q1"), user("q2")]}),
        "02_reasoning_list": Expected(
            request="reasoning is one string: no server accepts a list of items",
            body={"messages": [user("q1"), {**text_message("a1"), "reasoning_content": "r1"}, user("q2")]},
        ),
        "02_reasoning_on_user": Expected(
            request="only assistant messages have reasoning: elsewhere it is left out, with a warning",
            body={"messages": [user("q1")]},
        ),
        "02_starts_with_assistant_no_trunc": Expected(
            output="an HTTP error that names the message, in place of the IndexError",
            error={"status": 422, "param": "messages[0].role"},
        ),
        "02_two_assistant_texts": Expected(
            request="no text is lost: two texts stay two messages",
            body={"messages": [user("q1"), text_message("first"), text_message("second"), user("q2")]},
        ),
        "02_two_systems": Expected(
            output="an HTTP error that names the message, in place of the ModelServiceError",
            error={"status": 422, "param": "messages[1].role"},
        ),
        "09_gen_skip_stopword": Expected(
            request="Qwen-Agent's own switches are known and never sent",
            output="no TypeError",
            body={"stop": ["lo"]},
            messages=[text_message("Hello")],
        ),
        "09_stop_delta": Expected(output=ASSEMBLED + "; " + STOPPED, messages=[text_message("Tho")]),
        "09_stop_string": Expected(
            output="a single stop word is a word, not its letters", messages=[text_message("abc")]
        ),
        "10_finish_length": Expected(output="the reply has a finish reason", finish_reason="length"),
        "10_http_400": Expected(
            request="a request that the server refuses is not sent again",
            output="the error has the server's own status and message",
            requests=1,
            error={"status": 400, "code": "invalid_request", "message": "bad request", "retryable": False},
        ),
        "10_http_401": Expected(
            output="the gateway's key is not the caller's: 502, with the server's own status beside it",
            error={"status": 502, "code": "authentication", "message": "bad key"},
        ),
        "10_http_429": Expected(
            request="only one layer retries: `max_retries` 2 means three attempts. The golden's fourth attempt is a "
            "retry of its client library, below Qwen-Agent's own",
            output="the third attempt was still refused",
            requests=3,
            error={"status": 429, "code": "rate_limit", "message": "slow (rate limit)", "retryable": True},
        ),
        "10_http_500_exhaust": Expected(
            request="only one layer retries: `max_retries` 2 means three attempts, not nine",
            output="the server's last error is kept",
            requests=3,
            error={"status": 502, "code": "server_error", "message": "boom (server error)"},
        ),
        "10_mid_stream_bad_json": Expected(
            output="an interrupted stream is an error, after the content that arrived",
            error={"status": 502, "code": "upstream_protocol"},
        ),
        "10_mid_stream_error_event": Expected(
            request="a request is not sent again once the reply has begun",
            output="the content that arrived stays, and the error follows it",
            requests=1,
            messages=[text_message("Hel")],
            error={"status": 502, "code": "server_error", "message": "engine died (server error)"},
        ),
        "10_refusal_field": Expected(
            output="a refusal is passed on, and marked", messages=[text_message("no", refusal=True)]
        ),
        "10_stream_empty": Expected(output="an empty reply ends like any other", messages=[], finish_reason="stop"),
        "10_stream_empty_fn": Expected(output="an empty reply ends like any other", messages=[], finish_reason="stop"),
    }
)
