"""Chunks of a Gemini server, for a client of the same API."""

import json
from typing import Any

from app.formats.gemini.chunks import drop_finish, is_last, join_chunks, rename_model

from tests.each_case import each_case

Json = dict[str, Any]


def write(*candidates: Any, **fields: Any) -> str:
    return json.dumps({"candidates": list(candidates), **fields})


def says(*parts: Json, **fields: Any) -> Json:
    return {"content": {"role": "model", "parts": list(parts)}, **fields}


def test_only_the_model_at_the_top_is_renamed() -> None:
    text = write(says({"text": "modelVersion"}), modelVersion="up", big=2**63)
    assert json.loads(rename_model(text, "m")) == {**json.loads(text), "modelVersion": "m"}
    bare = write(says({"text": "modelVersion"}))
    assert json.loads(rename_model(bare, "m")) == json.loads(bare)


@each_case(
    ("text", "expected"),
    [
        (write(says(finishReason="STOP")), True),
        (write(says(finishReason=None)), False),
        (write(says({"text": "finishReason"})), False),
        (json.dumps({"finishReason": "STOP", "candidates": 5}), False),
    ],
)
def test_a_chunk_ends_the_reply_by_the_finish_reason_of_a_candidate(text: str, expected: bool) -> None:
    assert is_last(text) is expected


def test_a_chunk_without_its_end_keeps_all_else() -> None:
    text = write(says({"text": "A"}, finishReason="STOP", finishMessage="m", index=0), usageMetadata={"a": 1})
    assert json.loads(drop_finish(text)) == {"candidates": [says({"text": "A"}, index=0)], "usageMetadata": {"a": 1}}


def test_chunks_are_joined_and_lose_nothing() -> None:
    first = write(says({"text": "a", "thought": True}, {"text": "b"}, index=0), usageMetadata={"p": 1, "q": 2})
    other = write(says({"text": "x"}, index=1), says({"text": "c"}, index=0, safetyRatings=[1]))
    last = write({"finishReason": "STOP"}, says(index=[1]), usageMetadata={"q": 3, "p": None}, modelVersion="up")
    assert join_chunks([first, other, last], "m") == {
        "candidates": [
            says({"text": "a", "thought": True}, {"text": "bc"}, index=[1], safetyRatings=[1], finishReason="STOP"),
            says({"text": "x"}, index=1),
        ],
        "usageMetadata": {"p": 1, "q": 3},
        "modelVersion": "m",
    }
    signed = [
        write(says({"text": "a"})),
        write(says({"text": "", "thoughtSignature": "s"})),
        write(says({"text": "b"})),
    ]
    assert [len(one["content"]["parts"]) for one in join_chunks(signed, "m")["candidates"]] == [3]
