"""Write what a reply of the Gemini API is grounded in as the annotations of chat completions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
_KINDS = ("web", "retrievedContext", "maps")
"""The kinds of a chunk (ai.google.dev/api/generate-content, GroundingChunk)."""
_INNER_BYTES = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 with which no character begins."""


Passage: TypeAlias = tuple[int, int, str]
"""Where a passage begins and ends, in bytes, and the URL of a source."""


def make_annotations(groundings: Sequence[Json], text: str, told: set[Passage]) -> list[Json]:
    """Return a citation for each supported passage and each of its sources, and add it to those that are told, which
    are left out. Places are bytes in Gemini's API, and characters in the annotations. What names no source is left out,
    and so is what begins behind the text."""
    found: dict[Passage, Json] = {}
    size = len(text.encode("utf-8", "surrogatepass"))
    for grounding in groundings:
        for start, end, source in _list_supports(grounding):
            passage = start, end, source["url"]
            if passage not in told and start < size:
                found.setdefault(passage, source)
    told.update(found)
    characters = _count_characters({place for start, end, _ in found for place in (start, end)}, text)
    return [
        {
            "type": "url_citation",
            "url_citation": {"start_index": characters[start], "end_index": characters[end], **source},
        }
        for (start, end, _), source in found.items()
    ]


def _list_supports(grounding: Json) -> Iterator[tuple[int, int, Json]]:
    chunks, supports = grounding.get("groundingChunks"), grounding.get("groundingSupports")
    sources = [_read_source(chunk) for chunk in chunks] if isinstance(chunks, list) else []
    for support in supports if isinstance(supports, list) else ():
        segment = support.get("segment") if isinstance(support, dict) else None
        if not isinstance(segment, dict):
            continue
        indices = support.get("groundingChunkIndices")
        for index in indices if isinstance(indices, list) else ():
            source = sources[index] if type(index) is int and 0 <= index < len(sources) else None
            if source is not None:
                yield _read_place(segment.get("startIndex")), _read_place(segment.get("endIndex")), source


def _read_source(chunk: Any) -> Json | None:
    holders = [chunk.get(kind) for kind in _KINDS] if isinstance(chunk, dict) else []
    for holder in holders:
        if isinstance(holder, dict) and isinstance(uri := holder.get("uri"), str) and uri:
            title = holder.get("title")
            return {"url": uri, "title": title if isinstance(title, str) else uri}
    return None


def _read_place(value: Any) -> int:
    """Return a place in bytes. One that is 0 is left out by servers."""
    return value if type(value) is int and value > 0 else 0


def _count_characters(places: Iterable[int], text: str) -> dict[int, int]:
    """Return for each place in the UTF-8 bytes of a text how many characters begin before it."""
    encoded = text.encode("utf-8", "surrogatepass")
    counts: dict[int, int] = {}
    before, count = 0, 0
    for place in sorted(places):
        end = min(place, len(encoded))
        count += len(encoded[before:end].translate(None, _INNER_BYTES))
        before = max(before, end)
        counts[place] = count
    return counts
