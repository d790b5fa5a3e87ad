"""Citations are places in bytes."""

from typing import Any

from app.chat.accumulator import ReplyMessage
from app.formats.gemini.citations import write_grounding


def message(text: str, *annotations: Any, kind: Any = "content") -> ReplyMessage:
    found = ReplyMessage(0, kind)
    found.add(text)
    if annotations:
        found.extra["annotations"] = list(annotations)
    return found


def cite(start: Any, end: Any, url: Any = "https://a", title: Any = "A") -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url_citation": {"start_index": start, "end_index": end, "url": url, "title": title},
    }


def test_places_count_bytes_of_all_texts() -> None:
    said = [message("é one", cite(2, 5)), message("x", kind="reasoning_content"), message("two", cite(0, 3))]
    assert write_grounding(said) == {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
        "groundingSupports": [
            {"segment": {"startIndex": 3, "endIndex": 6, "text": "one"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 6, "endIndex": 9, "text": "two"}, "groundingChunkIndices": [0]},
        ],
    }


def test_a_citation_without_a_place_is_a_page_alone() -> None:
    for start, end in ((None, 3), (0, 0), (2, 99), (True, 2)):
        assert write_grounding([message("abc", cite(start, end, title=5))]) == {
            "groundingChunks": [{"web": {"uri": "https://a"}}]
        }


def test_other_annotations_are_none() -> None:
    assert write_grounding([message("abc", {"type": "file_citation"}, cite(0, 1, url=3), 5)]) == {}
    assert write_grounding([message("abc")]) == {}
    odd = message("abc")
    odd.extra["annotations"] = "x"
    assert write_grounding([odd]) == {}
