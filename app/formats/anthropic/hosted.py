"""Searches and fetches that the gateway has run, as blocks of Anthropic's Messages.

What the model reads of a page is in a seal, in the field where Anthropic has its own encrypted words. So the next
request says the same to the model, without anything that is stored.
"""

import re
from typing import Any

from app.chat.hosted_tools import NO_RESULTS, HostedResult, SearchEntry, write_entries
from app.formats.seal import Seal, read_seal, write_seal

Json = dict[str, Any]
HOSTED_ID = "srvtoolu_"
"""The id of a block `server_tool_use` is this and the id of the call."""
_OWN_ID = re.compile(rf"{HOSTED_ID}(?=[^_-]*[_-])")
"""Before the id of a model server's call. No id of Anthropic's has more separators (platform.claude.com/docs)."""
_SEARCH_RESULT = "web_search_tool_result"
_FETCH_RESULT = "web_fetch_tool_result"


def read_call_id(id_: str) -> str:
    """Return the id of the call of which the gateway has made a block, or the id of another provider's block."""
    return _OWN_ID.sub("", id_, count=1) if id_.startswith(HOSTED_ID) else id_


def write_hosted_result(call_id: str, result: HostedResult, text: str) -> Json:
    """`text` is what the model has read."""
    kind = _SEARCH_RESULT if result.kind == "web_search" else _FETCH_RESULT
    block: Json = {"type": kind, "tool_use_id": HOSTED_ID + call_id}
    if result.error is not None:
        error = {"type": f"{kind}_error", "error_code": result.error, "encrypted_content": write_seal(Seal(text))}
        return block | {"content": error}
    if result.kind == "web_search":
        block["content"] = list(map(_write_entry, result.entries))
        if not result.entries and text != NO_RESULTS:
            block["encrypted_content"] = write_seal(Seal(text))  # there is no page whose words it could be
        return block
    source = {"type": "text", "media_type": "text/plain", "data": text}
    document = {"type": "document", "source": source, "title": None}
    page = {"type": "web_fetch_result", "url": result.url, "retrieved_at": result.retrieved_at, "content": document}
    return block | {"content": page}


def _write_entry(entry: SearchEntry) -> Json:
    return {
        "type": "web_search_result",
        "url": entry.url,
        "title": entry.title,
        "page_age": entry.page_age,
        "encrypted_content": write_seal(Seal(entry.text)),
    }


def read_hosted_result(kind: str, content: Any, sealed: Any = None) -> str | None:
    """Return what the model reads of the result of a search or a fetch; None for any other block. `sealed` are the
    words of a search that has found no page."""
    if kind not in (_SEARCH_RESULT, _FETCH_RESULT):
        return None
    if is_hosted_error(kind, content):
        return _read_words(content) or f"Error: {content.get('error_code')}"
    if kind == _SEARCH_RESULT:
        return _read_words({"encrypted_content": sealed}) or _read_entries(content)
    page = content.get("content") if isinstance(content, dict) else None
    source = page.get("source") if isinstance(page, dict) else None
    data = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    return data if isinstance(data, str) else None


def is_hosted_error(kind: str, content: Any) -> bool:
    return isinstance(content, dict) and content.get("type") == f"{kind}_error"


def _read_entries(content: Any) -> str | None:
    if not isinstance(content, list):
        return None
    entries = []
    for item in content:
        if not isinstance(item, dict) or not isinstance(item.get("url"), str):
            return None
        words = _read_words(item)
        if not words and "page_age" not in item:
            return None  # no search of this API has found it
        title = item.get("title")
        entries.append(SearchEntry(item["url"], title if isinstance(title, str) else item["url"], words))
    return write_entries(entries)


def _read_words(block: Json) -> str:
    """Return the words that the gateway has sealed in a block; none of another provider's."""
    sealed = block.get("encrypted_content")
    seal = read_seal(sealed) if isinstance(sealed, str) else None
    return "" if seal is None else seal.text or ""
