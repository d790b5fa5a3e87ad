"""A model server's streams come out as the frames of the goldens, and however they are cut, they say the same."""

import json
from typing import Any

import pytest
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format

from tests.cuts import bytewise, random_cuts
from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, load
from tests.formats.agentscope.replies import batches_of, body_of, built, grown, renamed, stream, whole

CASES = [
    pytest.param(form, golden, id=f"{folder}-{name}")
    for folder, form in (("agentscope1", AGENTSCOPE), ("agentscope2", AGENTSCOPE2))
    for name, golden in load(f"emit/{folder}").items()
]
each = each_case(("form", "golden"), CASES)
NO_ARGUMENTS = "a call without arguments has `{}` for them, in every format"
DIFFERENT = {
    "s15": ('"finish_reason": "stop"', '"finish_reason": "tool_calls"'),
    "s22": ('"raw_input": ""', '"raw_input": "{}"'),
}
"""By golden, what is in our frames for what is in theirs: a reply that calls ends with tool_calls, whatever the
server says, and a call without arguments has `{}`."""
UNFINISHED = {"s12": "length", "s19": "content_filter"}
"""The last event says that the reply is not whole. The real classes know `completed` only."""
MERGED = {"s05": 1, "s22": 1}
"""Frames that come together with the next: a call is sent with the first of its arguments."""
OUR_ERROR = {"type": "server_error", "message": "boom (server error)", "code": "server_error", "status": 502}


def frames_of(form: Format, golden: Json) -> list[Json]:
    return stream(form, batches_of(body_of(golden)))


@each_case(("form", "golden", "id"), [(*case.values, case.id) for case in CASES])
def test_a_stream_has_the_frames_of_the_golden(form: Format, golden: Json, id: str) -> None:
    name = id.partition("-")[2][:3]
    found, wanted = renamed(frames_of(form, golden)), renamed(golden["expected"]["frames"])
    if form is AGENTSCOPE2:
        if name == "s22":
            assert [one["delta"] for one in found if one["type"] == "TOOL_CALL_DELTA"] == ["{}"], NO_ARGUMENTS
            found = [one for one in found if one["type"] != "TOOL_CALL_DELTA"]
        if name in UNFINISHED:
            assert found[-1].pop("metadata")["finish_reason"] == UNFINISHED[name]
            assert wanted[-1].pop("metadata") == {}
        assert without_ids(found) == without_ids(wanted)
        return
    if golden["expected"]["upstream_error"]:
        error = found.pop()
        assert error["last"] is True
        assert OUR_ERROR.items() <= error["error"].items()
    if name in DIFFERENT:
        before, after = DIFFERENT[name]
        assert before in json.dumps(wanted)
        wanted = json.loads(json.dumps(wanted).replace(before, after))
    wanted_iter = iter(wanted)
    assert all(one in wanted_iter for one in map(without_native_reason, found)), "frames may be merged, not changed"
    assert without_native_reason(found[-1]) == wanted[-1]
    assert len(wanted) - len(found) <= MERGED.get(name, 0)


def without_ids(events: list[Json]) -> list[Json]:
    """Events are numbered; one less moves the numbers of those behind it."""
    return [{key: value for key, value in one.items() if key != "id"} for one in events]


def without_native_reason(frame: Json) -> Json:
    metadata = {key: value for key, value in frame["msg"]["metadata"].items() if key != "native_finish_reason"}
    return {**frame, "msg": {**frame["msg"], "metadata": metadata}}


def test_events_have_an_id_each() -> None:
    for golden in load("emit/agentscope2").values():
        found = frames_of(AGENTSCOPE2, golden)
        assert len({one["id"] for one in found}) == len(found)
        assert {one["reply_id"] for one in found} == {"chat-1"}


@pytest.mark.many_cases
@each
@each_case("cut", [bytewise, lambda data: [data], lambda data: random_cuts(data, 7, 9)])
def test_any_cut_of_a_stream_ends_in_the_same(form: Format, golden: Json, cut: Any) -> None:
    expected, found = frames_of(form, golden), stream(form, batches_of(cut(b"".join(body_of(golden)))))
    if form is AGENTSCOPE:
        assert found[-1] == expected[-1]
    else:
        assert built(found) == built(expected)
        assert [one["type"] for one in found][-2:] == [one["type"] for one in expected][-2:]


@each_case("golden", load("emit/agentscope1").values(), ids=load("emit/agentscope1"))
def test_snapshots_only_grow_under_one_id(golden: Json) -> None:
    received = [one for one in frames_of(AGENTSCOPE, golden) if "msg" in one]
    assert len({one["msg"]["id"] for one in received}) == 1
    assert all(grown(before["msg"], after["msg"]) for before, after in zip(received, received[1:], strict=False))


@each_case("golden", load("emit/agentscope1").values(), ids=load("emit/agentscope1"))
def test_a_read_makes_one_frame_at_most(golden: Json) -> None:
    for batch in batches_of(body_of(golden))[:-1]:
        assert len(stream(AGENTSCOPE, [batch])) <= 1


@each_case("golden", load("emit/agentscope1").values(), ids=load("emit/agentscope1"))
def test_a_whole_reply_is_the_last_frame(golden: Json) -> None:
    batches = batches_of(body_of(golden))
    last, body = stream(AGENTSCOPE, batches)[-1], whole(AGENTSCOPE, batches)
    if "error" in last:
        assert body.pop("msg")["content"] == [{"type": "text", "text": "Par"}]
    assert body == last


@each_case("golden", load("emit/agentscope2").values(), ids=load("emit/agentscope2"))
def test_a_whole_reply_is_the_message_that_the_events_make(golden: Json) -> None:
    batches = batches_of(body_of(golden))
    content = whole(AGENTSCOPE2, batches)["msg"]["content"]
    kinds = {"thinking": "THINKING_BLOCK", "text": "TEXT_BLOCK", "tool_call": "TOOL_CALL"}
    texts = [
        {
            "kind": kinds[block["type"]],
            "name": block.get("name"),
            "text": block.get("text") or block.get("thinking") or block.get("input") or "",
        }
        for block in content
    ]
    assert texts == built(stream(AGENTSCOPE2, batches))


@each
def test_snapshots_and_deltas_are_the_same_stream(form: Format, golden: Json) -> None:
    batches = batches_of(body_of(golden))
    assert stream(form, batches, "snapshot") == stream(form, batches, "delta")
