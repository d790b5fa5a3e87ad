"""Lists the URLs in a client's own body that its server would fetch.

They are the sources of images and documents, remote MCP servers, and addresses that only some servers know, such as
that of a webhook. A URL in the input of a call, in a schema or in
the results of a search is only text to the server.
"""

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from app.chat.known_conversation import KnownConversation, gather, make_once
from app.chat.known_names import recall_names

_GOOGLE_FILE = "fileUri"
_URLS = frozenset(("image_url", "file_url", "video_url", "audio_url", "server_url", _GOOGLE_FILE))
"""Fields whose text or whose `url` is fetched."""
_ADDRESSES = frozenset(("webhook_url", "callback_url", "endpoint", "uri", "href", "urls"))
"""Fields that no API is known to have; a URL in them may be fetched or called."""
_ADDRESS_WORDS = frozenset(
    ("url", "urls", "uri", "uris", "href", "link", "links", "endpoint", "endpoints", "webhook", "webhooks", "callback")
)
"""Outside the conversation and the tools, a field whose name has one of these words has an address."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IN_STORE = ("gs://", "files/")
"""How the names of files in Google's own stores begin."""
_WITH_URLS = frozenset(("source", "mcp_servers", "streamableHttpTransport"))
"""Fields with objects whose `url` is fetched."""
_DATA = frozenset(("file_data", "input_audio"))
"""Fields with base64, in whose place some servers take a URL."""
_CONVERSATIONS = ("messages", "input", "contents")
_APART = frozenset((*_CONVERSATIONS, "tools", "system", "instructions", "systemInstruction"))
_MOST_BEFORE_SLASHES = 64
_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
_WEB_SCHEME = re.compile(r"\s*(?:https?|wss?|ftp|file):", re.IGNORECASE)
_AS_BROWSERS_READ = {ord("\\"): "/", **dict.fromkeys(map(ord, "\t\r\n"))}
"""A backslash is a slash, and tabs and line breaks are nothing (url.spec.whatwg.org, "URL parsing")."""
_TEXTS = frozenset(("arguments", "input_schema", "parameters", "schema", "metadata"))
"""Fields in which nothing is fetched."""


def find_body_urls(
    body: Mapping[str, Any], known: KnownConversation | None, own_fields: Set[str] = frozenset()
) -> tuple[tuple[str, str], ...]:
    """Return `find_fetched_urls` of a body; those of its tools and of the beginning of its messages may be known. What
    is in `own_fields` is only text to the server."""
    conversation = next((name for name in _CONVERSATIONS if isinstance(body.get(name), list)), None)
    addresses = find_addresses({name: value for name, value in body.items() if name not in _APART})
    body = {name: value for name, value in body.items() if name != "type"}  # a body is no call
    if known is None or conversation is None:
        return tuple(sorted({*find_fetched_urls(body, own_fields=own_fields), *addresses}))
    entries: list[Any] = body[conversation]

    def read(start: int, end: int) -> tuple[tuple[str, str], ...]:
        places = range(start, end)
        found = (find_fetched_urls(entries[place], f"{conversation}[{place}]", own_fields) for place in places)
        return tuple([url for urls in found for url in urls])

    tools: Any = body.get("tools")
    apart = (conversation, "tools") if isinstance(tools, list) else (conversation,)
    found = find_fetched_urls({name: value for name, value in body.items() if name not in apart}, "", own_fields)
    if isinstance(tools, list):
        found += make_once(find_fetched_urls, lambda: find_fetched_urls(tools, "tools", own_fields), tools, known)
    return tuple(sorted({*found, *addresses, *gather(find_body_urls, read, entries, known, ())}))


def find_media_addresses(fields: Mapping[str, Any], media: Set[str]) -> list[tuple[str, str]]:
    """Return (JSON path, URL) of each address in the fields of a request that is no conversation. Those of the names in
    `media` have a medium, as base64 or as a URL."""
    return [(path, url) for path, url in find_addresses(fields, names=media) if _SCHEME.match(_read_beginning(url))]


def find_addresses(fields: Mapping[str, Any], path: str = "", names: Set[str] = frozenset()) -> list[tuple[str, str]]:
    """Return (JSON path, URL) of each address in fields of which the gateway does not know whether a server uses it:
    those whose name has a word for an address, or is in `names`."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any, bool]] = [(path, fields, False)]
    while waiting:
        place, one, is_address = waiting.pop()
        if isinstance(one, dict):
            for name, inner in one.items():
                if name not in _TEXTS:
                    below = f"{place}.{name}" if place else name
                    waiting.append((below, inner, is_address or name in names or _has_address(name)))
        elif isinstance(one, list):
            waiting += ((f"{place}[{index}]", inner, is_address) for index, inner in enumerate(one))
        elif is_address and isinstance(one, str) and _is_address(one):
            found.append((place, one))
    return sorted(found)


def _read_beginning(text: str) -> str:
    return text[:_MOST_BEFORE_SLASHES].translate(_AS_BROWSERS_READ)


def _is_address(text: str) -> bool:
    """Whether a text in the place of an address is one, in whichever form a server may read it: for browsers and their
    libraries `http:a.b`, `http:/a.b` and `http:\\\\a.b` are `http://a.b`."""
    beginning = _read_beginning(text)
    if beginning.lstrip()[:5].lower() == "data:":
        return False
    return "//" in beginning or _WEB_SCHEME.match(beginning) is not None


@recall_names
def _has_address(name: str) -> bool:
    return any(word.lower() in _ADDRESS_WORDS for word in _WORD.findall(name))


def find_fetched_urls(value: Any, path: str = "", own_fields: Set[str] = frozenset()) -> list[tuple[str, str]]:
    """Return (JSON path, URL) of each URL in a JSON value of any nesting. Data URIs are none; what stands where a URL
    belongs is one, even if it is a local path. Nothing in `own_fields` is fetched."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any]] = [(path, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, dict):
            kind = one.get("type")
            is_call = isinstance(kind, str) and kind.endswith(("_use", "_tool_call"))
            for name, inner in one.items():
                if name in _TEXTS or name in own_fields or (is_call and name == "input"):
                    continue
                below = f"{place}.{name}" if place else name
                found += _read_field(name, inner, below)
                if isinstance(inner, dict | list):
                    waiting.append((below, inner))
        elif isinstance(one, list):
            waiting += ((f"{place}[{index}]", inner) for index, inner in enumerate(one))
    return sorted(found)


def _read_field(name: str, value: Any, path: str) -> Iterator[tuple[str, str]]:
    fetched = name in _URLS
    if name in _ADDRESSES:
        for where, text in _list_texts(value, path):
            if _is_address(text):
                yield where, text
        return
    if not fetched and name not in _WITH_URLS and name not in _DATA:
        return
    for place, one in (
        ((f"{path}[{index}]", one) for index, one in enumerate(value)) if isinstance(value, list) else ((path, value),)
    ):
        if isinstance(one, dict):
            inner = "data" if name in _DATA else "url"
            place, one = f"{place}.{inner}", one.get(inner)
        elif name in _WITH_URLS:
            continue
        if not isinstance(one, str) or not one or one[:5].lower() == "data:":
            continue
        if name == _GOOGLE_FILE and one.startswith(_IN_STORE):
            continue
        if name not in _DATA or _WEB_SCHEME.match(_read_beginning(one)):
            yield place, one


def _list_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    for place, one in enumerate(value) if isinstance(value, list) else ((None, value),):
        if isinstance(one, str):
            yield path if place is None else f"{path}[{place}]", one
