"""Searches and fetches that the gateway has run, as blocks of Anthropic's Messages.

What the model reads of a page is in a seal, in the field where Anthropic has its own encrypted words. So the next
request says the same to the model, without anything that is stored.
"""

from typing import Any

from app.chat.hosted_tools import HostedResult, SearchEntry, write_entries
from app.formats.seal import Seal, read_seal, write_seal

Json = dict[str, Any]
HOSTED_ID = "srvtoolu_"
"""The id of a block `server_tool_use` is this and the id of the call."""
_SEARCH_RESULT = "web_search_tool_result"
_FETCH_RESULT = "web_fetch_tool_result"


def write_hosted_result(call_id: str, result: HostedResult, text: str) -> Json:
    """`text` is what the model has read."""
    kind = _SEARCH_RESULT if result.kind == "web_search" else _FETCH_RESULT
    block: Json = {"type": kind, "tool_use_id": HOSTED_ID + call_id}
    if result.error is not None:
        return block | {"content": {"type": f"{kind}_error", "error_code": result.error}}
    if result.kind == "web_search":
        return block | {"content": list(map(_write_entry, result.entries))}
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


def read_hosted_result(kind: str, content: Any) -> str | None:
    """Return what the model reads of the result of a search or a fetch; None for any other block."""
    if kind not in (_SEARCH_RESULT, _FETCH_RESULT):
        return None
    if isinstance(content, dict) and content.get("type") == f"{kind}_error":
        return f"Error: {content.get('error_code')}"
    if kind == _SEARCH_RESULT:
        return _read_entries(content)
    page = content.get("content") if isinstance(content, dict) else None
    source = page.get("source") if isinstance(page, dict) else None
    data = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    return data if isinstance(data, str) else None


def _read_entries(content: Any) -> str | None:
    if not isinstance(content, list):
        return None
    entries = []
    for item in content:
        if not isinstance(item, dict) or not isinstance(item.get("url"), str):
            return None
        title, sealed = item.get("title"), item.get("encrypted_content")
        seal = read_seal(sealed) if isinstance(sealed, str) else None
        text = "" if seal is None else seal.text or ""
        entries.append(SearchEntry(item["url"], title if isinstance(title, str) else item["url"], text))
    return write_entries(entries)
