"""The comparison of two responses."""

import json
from typing import Any

from app.replay.frames import Difference, compare, split_frames

from tests.each_case import each_case


def stream(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


@each_case(
    ("body", "frames"),
    [
        (b"", []),
        (b'{"a": 1}', ['{"a": 1}']),
        (b"data: 1\n\n: comment\n\ndata: [DONE]\n\n", ["data: 1", "data: [DONE]"]),
        (b"event: a\r\ndata: 1\r\n\r\n", ["event: a\ndata: 1"]),
        (b"data: 1", ["data: 1"]),
    ],
)
def test_a_response_is_split_into_frames_without_comments(body: bytes, frames: list[str]) -> None:
    assert split_frames(body) == frames


@each_case(
    ("one", "other"),
    [
        (stream({"id": "a"}, {"id": "a"}), stream({"id": "b"}, {"id": "b"})),
        (stream({"created": 1, "text": "x"}), stream({"created": 2, "text": "x"})),
        (stream({"items": [{"id": "a"}], "of": "a"}), stream({"items": [{"id": "b"}], "of": "b"})),
        (b"id: 1\ndata: 1\n\n", b"id: 2\ndata: 1\n\n"),
        (b"data: 1\n\n: still here\n\ndata: 2\n\n", b"data: 1\n\ndata: 2\n\n"),
        (b'{"cost": 1, "a": null}', b'{"cost": 2, "a": null}'),
        (b'[{"responseId": "a"},\n{"x": 1}]', b'[{"responseId": "b"},\n{"x": 1}]'),
        (b'{"seal": "{\\"created_at\\": 1, \\"a\\": 2}"}', b'{"seal": "{\\"created_at\\": 3, \\"a\\": 2}"}'),
        (
            stream({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
            stream({"type": "message_start", "message": {"usage": {"input_tokens": 2}}}),
        ),
    ],
)
def test_new_ids_and_times_are_no_difference(one: bytes, other: bytes) -> None:
    assert compare(one, other) is None


@each_case(
    ("one", "other", "number", "path"),
    [
        (stream({"id": "a"}, {"id": "a"}), stream({"id": "b"}, {"id": "c"}), 2, "id"),
        (stream({"a": [1, 2]}), stream({"a": [1, 3]}), 1, "a[1]"),
        (stream({"a": [1, 2]}), stream({"a": [1]}), 1, "a"),
        (b'[{"a": 1},\n{"x": 1}]', b'[{"a": 1},\n{"x": 2}]', 1, "[1].x"),
        (stream({"seal": '{"a": 1}'}), stream({"seal": '{"a": 2}'}), 1, "seal.a"),
        (stream({"a": {"b": "x"}}), stream({"a": {}}), 1, "a.b"),
        (stream({"a": 1}), stream({"a": True}), 1, "a"),
        (stream({"a": 1}), stream({"a": 1.0}), 1, "a"),
        (stream({}), stream({"new": 1}), 1, "new"),
        (stream(1), b"data: [DONE]\n\n", 1, ""),
        (b"event: a\ndata: 1\n\n", b"data: 1\n\n", 1, ""),
    ],
)
def test_the_first_difference_is_found(one: bytes, other: bytes, number: int, path: str) -> None:
    found = compare(one, other)
    assert found is not None
    assert (found.number, found.path) == (number, path)


def test_a_frame_that_is_missing_is_a_difference() -> None:
    assert compare(stream(1), stream(1, 2)) == Difference(2, "", None, "data: 2")
    assert compare(stream(1, 2), stream(1)) == Difference(2, "", "data: 2", None)


def test_estimated_tokens_are_no_difference_where_they_were_estimated() -> None:
    one, other = stream({"prompt_tokens": 1}), stream({"prompt_tokens": 2})
    assert compare(one, other, estimated=True) is None
    assert compare(one, other) is not None
