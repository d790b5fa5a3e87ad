"""What a reply is grounded in becomes its annotations."""

from typing import Any

from app.chat.events import Extra

from tests.upstream.gemini.replies import call, chunk, read, read_told, write_stream

Json = dict[str, Any]


def tell(*chunks: Json) -> Json:
    return read_told(read(write_stream(*chunks)))


def grounding(*supports: Json) -> Json:
    chunks = [{"web": {"uri": "https://a.test", "title": "A"}}, {"retrievedContext": {"uri": "https://b.test"}}, {}]
    return {"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": list(supports)}}


def test_sources_are_citations_of_characters() -> None:
    supports: list[Json] = [
        {"segment": {"endIndex": 3}, "groundingChunkIndices": [0, 1, 2, 7, -1, "0"]},
        {"segment": {"startIndex": 3, "endIndex": 99}, "groundingChunkIndices": [0]},
        {"segment": None, "groundingChunkIndices": [0]},
        {"segment": {}},
    ]
    first = chunk({"text": "é😀"}, **grounding(supports[0]))
    last = chunk({"text": "b"}, end="STOP", **grounding(*supports))
    cited = [one["url_citation"] for one in tell(first, last)["message"]["annotations"]]
    assert cited == [
        {"start_index": 0, "end_index": 2, "url": "https://a.test", "title": "A"},
        {"start_index": 0, "end_index": 2, "url": "https://b.test", "title": "https://b.test"},
        {"start_index": 2, "end_index": 3, "url": "https://a.test", "title": "A"},
    ]


def test_sources_without_a_passage_are_no_citations() -> None:
    assert tell(chunk(call("f"), end="STOP", **grounding({"segment": {}})))["message"].keys() == {"tool_calls"}
    odd: Json = {"groundingMetadata": {"groundingChunks": None, "groundingSupports": [None, {"segment": {}}]}}
    assert tell(chunk({"text": "a"}, end="STOP", **odd))["message"] == {"content": "a"}


def test_the_sources_of_a_text_are_told_before_what_follows_it() -> None:
    support = {"segment": {"endIndex": 1}, "groundingChunkIndices": [0]}
    later = {"segment": {"startIndex": 1, "endIndex": 2}, "groundingChunkIndices": [0]}
    events = read(write_stream(chunk({"text": "a"}, call("f"), {"text": "b"}, end="STOP", **grounding(support, later))))
    places = [event.fields["annotations"] for event in events if isinstance(event, Extra)]
    assert [[one["url_citation"]["end_index"] for one in cited] for cited in places] == [[1], [2]]
    assert isinstance(events[1], Extra) and isinstance(events[-2], Extra)
