"""A client of the Gemini API gets the chunks of a server of the same API as they came."""

import json
from typing import Any

import httpx

from tests.cuts import bytewise
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.upstream.gemini.own_requests import GROUNDED, HEAD, PARTS, URL, USER, configure
from tests.upstream.gemini.replies import chunk, write_stream

Json = dict[str, Any]


def ask(reply: Any, path: str = "streamGenerateContent?alt=sse", **fields: Any) -> Answer:
    server = ModelServer(lambda _: reply() if callable(reply) else reply)
    with Running(configure(**fields), server) as gateway:
        return gateway.post(f"{URL}:{path}", {"contents": [USER], "generationConfig": {"max_retries": 0}})


def rename(chunks: list[Json]) -> list[Json]:
    return [{**one, "modelVersion": "m"} for one in chunks]


def test_each_chunk_of_a_stream_goes_on_as_it_came() -> None:
    for pieces in ([write_stream(*PARTS)], list(bytewise(write_stream(*PARTS)))):
        answer = ask(streamed(*pieces))
        assert answer.frames == rename(PARTS)
        assert "\u2028" not in answer.body.decode()
    array = ask(streamed(write_stream(*PARTS)), "streamGenerateContent")
    assert array.json == rename(PARTS)
    assert ask(httpx.Response(200, json=PARTS)).frames == rename(PARTS)


def test_a_whole_reply_goes_on_as_it_came() -> None:
    whole = {**chunk(*(part for one in PARTS for part in one["candidates"][0]["content"]["parts"]), end="STOP"), **HEAD}
    answer = ask(httpx.Response(200, json=whole), "generateContent")
    assert answer.json == {**whole, "modelVersion": "m"}
    assert ask(httpx.Response(200, json=whole)).frames == [{**whole, "modelVersion": "m"}]


def test_chunks_for_a_client_that_wants_one_reply_are_joined() -> None:
    answer = ask(streamed(write_stream(*PARTS)), "generateContent").json
    [candidate] = answer["candidates"]
    assert candidate["content"]["parts"] == [part for one in PARTS for part in one["candidates"][0]["content"]["parts"]]
    assert {name: candidate[name] for name in GROUNDED} == GROUNDED and candidate["finishReason"] == "STOP"
    assert answer["usageMetadata"] == {"promptTokenCount": 3}
    texts = [chunk({"text": "a"}), chunk({"text": "b"}, end="STOP")]
    [joined] = ask(streamed(write_stream(*texts)), "generateContent").json["candidates"]
    assert joined["content"]["parts"] == [{"text": "ab"}]


def test_a_stream_that_is_cut_ends_as_an_error_and_tells_no_finish_reason() -> None:
    body = write_stream(*PARTS)
    for size in range(0, len(body) - 4, 7):
        frames = ask(streamed(body[:size])).frames if size else []
        for frame in frames[:-1]:
            assert "finishReason" not in json.dumps(frame)
        if frames and "error" not in frames[-1]:
            assert frames == rename(PARTS), size


def test_a_stream_that_breaks_behind_its_finish_reason_keeps_its_text_and_fails() -> None:
    error = b'data: {"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}}\r\n\r\n'
    frames = ask(streamed(write_stream(*PARTS) + error)).frames
    assert frames[-2]["candidates"][0]["content"] == PARTS[-1]["candidates"][0]["content"]
    assert "finishReason" not in frames[-2]["candidates"][0] and frames[-1]["error"]["code"] == 503


def test_chunks_behind_a_finish_reason_go_on() -> None:
    chunks = [{**chunk({"text": text}, end="STOP"), **HEAD} for text in ("a", "b")]
    assert ask(streamed(write_stream(*chunks))).frames == rename(chunks)


@each_case(
    "chunks",
    [
        [{"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []}, "usageMetadata": {"promptTokenCount": 1}}],
        [chunk({"text": "A"}), chunk(end="MALFORMED_FUNCTION_CALL", finishMessage="bad call")],
        [chunk({"text": "A"}), {"candidates": [{"finishReason": "RECITATION", "index": 0}]}],
    ],
)
def test_why_there_is_no_reply_is_told_in_googles_words(chunks: list[Json]) -> None:
    assert ask(streamed(write_stream(*chunks))).frames == chunks
    if len(chunks) == 1:
        assert ask(httpx.Response(200, json=chunks[0]), "generateContent").json == chunks[0]


def test_a_finish_reason_in_numbers_is_written_in_words() -> None:
    frames = ask(streamed(write_stream(chunk({"text": "A"}), chunk({"text": "B"}, end=1)))).frames
    assert frames[0] == chunk({"text": "A"})
    assert [one["candidates"][0].get("finishReason") for one in frames] == [None, None, "STOP"][: len(frames)]
    text = "".join(p.get("text", "") for one in frames for p in one["candidates"][0]["content"].get("parts", []))
    assert text == "AB"


def test_where_a_stage_changes_the_reply_the_encoder_goes_on() -> None:
    chunks = [
        {**chunk({"text": "one"}), **HEAD},
        {**chunk({"text": " two STOP three"}), **HEAD},
        {**chunk({"text": " four"}, end="MAX_TOKENS"), **HEAD},
    ]
    server = ModelServer(lambda _: streamed(write_stream(*chunks)))
    body = {"contents": [USER], "generationConfig": {"stopSequences": ["STOP"]}}
    with Running(configure(), server) as gateway:
        frames = gateway.post(f"{URL}:streamGenerateContent?alt=sse", body).frames
        whole = gateway.post(f"{URL}:generateContent", body).json
    parts = [part for one in frames for part in one["candidates"][0]["content"].get("parts", [])]
    assert "".join(part.get("text", "") for part in parts) == "one two "
    assert [one["candidates"][0]["finishReason"] for one in frames if "finishReason" in one["candidates"][0]] == [
        "STOP"
    ]
    assert whole["candidates"][0]["content"]["parts"] == [{"text": "one two "}]


def test_a_reply_of_the_cache_is_the_servers_own_for_streams_and_whole() -> None:
    server = ModelServer(lambda _: streamed(write_stream(*PARTS)))
    fields = {"cache": {"url": "memory:", "apply": "always"}}
    with Running({**configure(), **fields}, server) as gateway:
        answers = [
            gateway.post(f"{URL}:streamGenerateContent?alt=sse", {"contents": [USER], "cache": True}) for _ in "ab"
        ]
        whole = gateway.post(f"{URL}:generateContent", {"contents": [USER], "cache": True}).json
    assert [one.frames for one in answers] == [rename(PARTS)] * 2
    assert whole["candidates"][0]["safetyRatings"] == GROUNDED["safetyRatings"]
