"""Citations of web pages as `groundingMetadata`, whose places are bytes of the text in UTF-8.

https://ai.google.dev/api/generate-content#GroundingMetadata
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.chat.accumulator import ReplyMessage, is_json_object
from app.formats.citations import write_responses_citation

Json = dict[str, Any]


def write_grounding(messages: Sequence[ReplyMessage]) -> Json:
    """Return the citations of a reply and the pages of its searches; nothing if it has none. Places count from the
    beginning of all its texts."""
    chunks: dict[tuple[str, Any], int] = {}
    queries = [query for message in messages if (query := _find_query(message)) is not None]
    for message in messages:
        hosted = None if message.result is None else message.result.hosted
        for entry in () if hosted is None else hosted.entries:
            chunks.setdefault((entry.url, entry.title), len(chunks))
    supports: list[Json] = []
    before = 0
    for message in messages:
        if message.kind != "content":
            continue
        for cited in _list_citations(message):
            number = chunks.setdefault((cited["url"], cited.get("title")), len(chunks))
            segment = _write_segment(message.text, cited, before)
            if segment is not None:
                supports.append({"segment": segment, "groundingChunkIndices": [number]})
        before += _count_bytes(message.text)
    webs = [{"web": {"uri": url, **({"title": title} if title else {})}} for url, title in chunks]
    found: Json = {"webSearchQueries": queries} if queries else {}
    found |= {"groundingChunks": webs} if webs else {}
    return found | ({"groundingSupports": supports} if supports else {})


def write_read_pages(messages: Sequence[ReplyMessage]) -> Json:
    """Return `urlContextMetadata`: the pages that the gateway has read; nothing if it has read none."""
    pages = []
    for message in messages:
        hosted = None if message.result is None else message.result.hosted
        if hosted is not None and hosted.kind == "web_fetch" and hosted.url:
            status = "SUCCESS" if hosted.error is None else "ERROR"
            pages.append({"retrievedUrl": hosted.url, "urlRetrievalStatus": f"URL_RETRIEVAL_STATUS_{status}"})
    return {"urlMetadata": pages} if pages else {}


def _find_query(message: ReplyMessage) -> str | None:
    """Return what a search of the gateway looked for; None for any other message."""
    if message.kind != "function_call" or message.server is None or message.server.hosted != "web_search":
        return None
    query = msgspec.json.decode(message.text).get("query") if is_json_object(message.text) else None
    return query if isinstance(query, str) else None


def _list_citations(message: ReplyMessage) -> Iterator[Mapping[str, Any]]:
    annotations = message.extra.get("annotations")
    for one in annotations if isinstance(annotations, list) else ():
        cited = write_responses_citation(one)
        if isinstance(cited, dict) and isinstance(cited.get("url"), str):
            title = cited.get("title")
            yield {**cited, "title": title if isinstance(title, str) else None}


def _write_segment(text: str, cited: Mapping[str, Any], before: int) -> Json | None:
    """Return the place of a citation in the texts; None if it has none."""
    start, end = cited.get("start_index"), cited.get("end_index")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        return None
    first = before + _count_bytes(text[:start])
    part = text[start:end]
    return {"startIndex": first, "endIndex": first + _count_bytes(part), "text": part}


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
