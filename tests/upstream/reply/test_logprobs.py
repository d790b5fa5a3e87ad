"""Reading the log probabilities of a reply's tokens."""

import json
from typing import Any

from app.chat.token_record import TokenRecord
from app.upstream.api import ApiName, find_api
from app.upstream.reply.logprobs import read_tokens

from tests.each_case import each_case


def entry(token: str, logprob: float, data: Any = None, *top: Any) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": data, "top_logprobs": list(top)}


@each_case(
    ("given", "expected"),
    [
        ([{"token": "a", "logprob": -0.5, "bytes": [97], "id": 5}], [entry("a", -0.5, [97])]),
        ([{"token": "a", "logprob": 0}], [entry("a", 0)]),
        ([{"token": "a", "logprob": None}], [entry("a", -9999.0)]),
        ([{"token": "a", "logprob": float("-inf")}], [entry("a", -9999.0)]),
        ([{"token": "a", "logprob": True, "bytes": [256]}], [entry("a", -9999.0)]),
        ([{"token": "a", "logprob": -1, "bytes": [True], "top_logprobs": {}}], [entry("a", -1)]),
        ([{"token": "\ud83d", "logprob": -1}], [entry("\ufffd", -1)]),
        (
            [{"token": "a", "logprob": -1, "top_logprobs": [{"token": "b", "logprob": -2}, 5]}],
            [entry("a", -1, None, {"token": "b", "logprob": -2, "bytes": None})],
        ),
        ([{"token": 5, "logprob": -1}], []),
        ([{"token": "a", "logprob": -1}, "b"], []),
        ("a", []),
        (None, []),
        ({"tokens": ["a"], "token_logprobs": [-1]}, [entry("a", -1)]),
        (
            {"tokens": ["a"], "token_logprobs": [-1], "top_logprobs": [{"b": -2}]},
            [entry("a", -1, None, {"token": "b", "logprob": -2, "bytes": None})],
        ),
        ({"tokens": ["a"], "token_logprobs": []}, []),
        ({"tokens": None}, []),
    ],
)
def test_every_token_has_all_fields_and_a_finite_number(given: Any, expected: Any) -> None:
    assert read_tokens(given) == expected


def write_delta(api: ApiName, text: str) -> bytes:
    tokens = [{"token": "x", "logprob": -1}]
    if api == "responses":
        place = {"output_index": 0, "content_index": 0, "item_id": "i"}
        event: Any = {"type": "response.output_text.delta", **place, "delta": text, "logprobs": tokens}
    else:
        event = {"choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"content": tokens}}]}
    return f"data: {json.dumps(event)}\n\n".encode()


@each_case("cut", [False, True])
@each_case("api", ["chat_completions", "responses"])
def test_events_that_differ_only_in_their_text_are_read_with_their_tokens(api: ApiName, cut: bool) -> None:
    """Other requests need nothing of such an event but its text."""
    make_reader = find_api(api).make_scored_reader
    assert make_reader is not None
    record = TokenRecord()
    reader, assembler = make_reader(record, "r")
    events = [write_delta(api, text) for text in "ab" * 100]
    for data in events if cut else [b"".join(events)]:
        assembler.feed(reader.feed(data))
    assert len(record.take("ab" * 100)) == 200
    assert not record.has_gaps
