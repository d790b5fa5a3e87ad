"""The body and the answer of `POST /v1/responses/compact`."""

import json
from typing import Any

import pytest
from app.chat.events import Finish, Passed, TextDelta
from app.formats.base import Options, ReplyInfo, ResponsesOptions
from app.formats.body import NOTHING_STORED, RejectedRequest, StoredItems, UnresolvedRequest
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import ResponsesRequest
from app.formats.responses.compaction import COMPACTION, parse_compact_body

LIMITS = RequestLimits(100, 100, 100, 64)


def parse(body: dict[str, Any], tokens: int = 100, stored: StoredItems = NOTHING_STORED) -> ResponsesRequest:
    parsed = parse_compact_body(json.dumps({"model": "m", **body}).encode(), LIMITS, None, user_tokens=tokens)
    if isinstance(parsed, UnresolvedRequest):
        parsed = parsed.resolve(stored)
    assert isinstance(parsed, ResponsesRequest)
    return parsed


def test_nothing_is_offered_and_nothing_stored() -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    parsed = parse({"input": "x", "tools": [tool], "temperature": 0.5, "store": True, "stream": True})
    assert (parsed.request.tools, dict(parsed.request.params), parsed.store, parsed.streamed) == ((), {}, False, False)
    assert parsed.reply_format is COMPACTION
    assert any(text.startswith("stream:") for text in parsed.warnings)


def test_a_trigger_of_the_caller_is_not_added_again() -> None:
    parsed = parse({"input": [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]})
    assert [item["type"] for item in parsed.input_items[1:]] == ["compaction_trigger"]


def test_the_own_body_for_a_server_has_no_trigger() -> None:
    passed = parse({"input": [{"role": "user", "content": "x"}]}).request.passed
    assert passed is not None
    assert passed.body["input"] == [{"role": "user", "content": "x"}]


def test_an_earlier_response_stands_before_the_input() -> None:
    items = [{"type": "message", "role": "user", "content": "first"}]
    stored = StoredItems({"resp_1": items}, {}, 0)
    parsed = parse({"previous_response_id": "resp_1", "input": "second"}, stored=stored)
    kept = [one["content"][0]["text"] for one in parsed.options.responses.kept]
    assert kept == ["first", "second"]


@pytest.mark.parametrize("raw", [b"{", b'{"model": "m"}', b'{"model": "m", "previous_response_id": "resp_none"}'])
def test_a_mistake_rejects_the_request(raw: bytes) -> None:
    parsed = parse_compact_body(raw, LIMITS, None, user_tokens=1)
    if isinstance(parsed, UnresolvedRequest):
        parsed = parsed.resolve(NOTHING_STORED)
    assert isinstance(parsed, RejectedRequest)
    assert parsed.passed is None


def test_words_that_do_not_fit_are_left_out_with_all_before_them() -> None:
    items = [{"role": "user", "content": text} for text in ("a", "b" * 50, "c")]
    kept = parse({"input": items}, tokens=2).options.responses.kept
    assert kept == ({"content": [{"type": "input_text", "text": "c"}]},)


def info(**options: Any) -> ReplyInfo:
    return ReplyInfo("resp_ab", "req", "m", 1, options=Options(responses=ResponsesOptions(compacts=True, **options)))


def test_the_answer_has_the_words_the_summary_and_the_warnings() -> None:
    kept = ({"content": [{"type": "input_text", "text": "x"}]},)
    encoder = COMPACTION.reply_encoder(info(kept=kept), "whole")
    encoder.feed([TextDelta("S")])
    body = json.loads(encoder.feed([Finish("stop", {"prompt_tokens": 1, "completion_tokens": 2}, warnings=("w",))]))
    assert (body["id"], body["object"], body["created_at"]) == ("resp_ab", "response.compaction", 1)
    assert [item["type"] for item in body["output"]] == ["message", "compaction"]
    assert len({item["id"] for item in body["output"]}) == 2
    assert (body["usage"]["total_tokens"], body["parley"]["warnings"]) == (3, ["w"])


def test_the_answer_of_a_server_stays_as_it_is() -> None:
    encoder = COMPACTION.reply_encoder(info(), "whole")
    assert encoder.feed([Passed("x", '{"a":1}'), Finish("stop")]) == b'{"a":1}'


def test_only_words_of_users_are_kept() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "said"}]}
    picture = {"type": "input_image", "image_url": "https://example.com/a.png"}
    users: list[dict[str, Any]] = [
        {"role": "user", "content": content}
        for content in ("first", [], [picture, {"type": "input_text", "text": "b"}])
    ]
    kept = parse({"input": [users[0], said, *users[1:]]}).options.responses.kept
    assert [one["content"] for one in kept] == [[{"type": "input_text", "text": "first"}], users[2]["content"]]
