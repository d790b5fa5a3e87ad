"""Log probabilities of a reply whose beginning is the server's own events."""

import json
from typing import Any

from app.chat.events import Event, Finish, Passed, PassedEnd, TextDelta, TokenLogprobs
from app.formats.base import Options, ReplyInfo
from app.formats.responses import RESPONSES

Json = dict[str, Any]


def token(text: str) -> Json:
    return {"token": text, "logprob": -0.5, "bytes": [97], "top_logprobs": []}


def passed(name: str, **fields: Any) -> Passed:
    return Passed(name, json.dumps({"type": name, **fields}))


def test_those_that_the_server_has_sent_are_not_sent_again() -> None:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    place: Json = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    delta = passed("response.output_text.delta", **place, delta="a", logprobs=[token("a")], sequence_number=4)
    batches: list[list[Event]] = [
        [passed("response.created", response={"id": "r", "output": []}, sequence_number=0)],
        [passed("response.output_item.added", output_index=0, item=item, sequence_number=1)],
        [passed("response.content_part.added", **place, part=part, sequence_number=2)],
        [delta, TokenLogprobs([token("a")]), TextDelta("a")],
        [PassedEnd(), TokenLogprobs([token("b")]), TextDelta("b"), TextDelta("c")],
        [Finish("stop")],
    ]
    encoder = RESPONSES.reply_encoder(ReplyInfo("r", "q", "m", 1, options=Options(passed=True, logprobs=True)), "delta")
    data = encoder.open() + b"".join([encoder.feed(events) for events in batches])
    frames = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]
    deltas = [frame for frame in frames if frame["type"] == "response.output_text.delta"]
    assert [(one["delta"], one["logprobs"]) for one in deltas] == [("a", [token("a")]), ("b", [token("b")]), ("c", [])]
    assert frames[-1]["response"]["output"][0]["content"][0]["logprobs"] == [token("a"), token("b")]
