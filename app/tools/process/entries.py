"""The pages that the result of a search names. Servers write them in many forms; the first that fits counts.

The forms: objects in `structuredContent` or in texts that are JSON; links to resources; sections of lines with `Title:`
and `URL:`; links in Markdown, and bare URLs.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app.chat.hosted_tools import SearchEntry

MAX_ENTRIES = 100
"""Of one result."""
_MAX_URL = 2048
_MAX_TITLE = 500
_LISTS = ("results", "items", "organic", "data", "web")
"""Keys under which lists of pages stand."""
_URLS = ("url", "link", "href")
_TITLES = ("title", "name")
_TEXTS = ("content", "snippet", "description", "text")
_DATES = ("published_date", "page_age", "date")
_WEB_URL = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_LINK = re.compile(
    r"\[(?P<title>[^\[\]\n]{1,300})\]\((?P<link>https?://[^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)?)[^()\n]{0,200}\)"
    r"|(?P<url>https?://[^\s<>\"'`\]\\]+)",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"\s*(?:[-*#>]+\s*|\d+[.)]\s*)?\**(?P<name>title|url|link|description|content|snippet|summary|text|date|published"
    r"|published date)\**\s*:\**(?P<value>.*)",
    re.IGNORECASE,
)
_KEYS = {
    "title": "title",
    **dict.fromkeys(("url", "link"), "url"),
    **dict.fromkeys(("date", "published", "published date"), "page_age"),
}
"""What a line says; any other has words of the page."""


def read_entries(result: Mapping[str, Any]) -> tuple[SearchEntry, ...]:
    """Return the pages in the result object of a server, each URL once."""
    given = result.get("content")
    blocks = [block for block in given if isinstance(block, dict)] if isinstance(given, list) else []
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    joined = "\n".join(texts)
    forms: tuple[Callable[[], Iterator[SearchEntry]], ...] = (
        lambda: _read_value(result.get("structuredContent")),
        lambda: (entry for text in texts for entry in _read_json(text)),
        lambda: _read_links(blocks),
        lambda: _read_sections(joined),
        lambda: _read_text(joined),
    )
    for form in forms:
        found: dict[str, SearchEntry] = {}
        for entry in form():
            found.setdefault(entry.url, entry)
            if len(found) == MAX_ENTRIES:
                break
        if found:
            return tuple(found.values())
    return ()


def _read_json(text: str) -> Iterator[SearchEntry]:
    if text.lstrip()[:1] not in ("{", "["):
        return
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return
    yield from _read_value(value)


def _read_value(value: Any, depth: int = 0) -> Iterator[SearchEntry]:
    """Read a page, a list of them, or an object with such a list."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                entry = _read_object(item)
                if entry is not None:
                    yield entry
        return
    if not isinstance(value, dict):
        return
    entry = _read_object(value)
    if entry is not None:
        yield entry
    elif depth < 2:
        for key in (*_LISTS, "result"):
            yield from _read_value(value.get(key), depth + 1)


def _read_object(item: Mapping[str, Any]) -> SearchEntry | None:
    return _make_entry(_find(item, _URLS), _find(item, _TITLES), _find(item, _TEXTS), _find(item, _DATES))


def _find(item: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first text under one of the names."""
    for name in names:
        value = item.get(name)
        if isinstance(value, list):
            value = "\n".join(part for part in value if isinstance(part, str))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _make_entry(url: str, title: str, text: str = "", page_age: str = "") -> SearchEntry | None:
    url = url.strip()
    if len(url) > _MAX_URL or _WEB_URL.fullmatch(url) is None:
        return None
    title = " ".join(title.split())[:_MAX_TITLE]
    return SearchEntry(url, title or url, text.strip(), page_age.strip()[:_MAX_TITLE] or None)


def _read_links(blocks: Sequence[Mapping[str, Any]]) -> Iterator[SearchEntry]:
    for block in blocks:
        if block.get("type") == "resource_link":
            entry = _make_entry(_find(block, ("uri",)), _find(block, ("title", "name")), _find(block, ("description",)))
            if entry is not None:
                yield entry


def _read_sections(text: str) -> Iterator[SearchEntry]:
    """Read sections, of which each begins with the line of its title."""
    section: _Section | None = None
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        name = "" if found is None else found["name"].lower()
        if name == "title":
            yield from _end_section(section)
            section = _Section()
        if section is not None:
            section.add(_KEYS.get(name, "text") if found else "", found["value"].strip() if found else line)
    yield from _end_section(section)


class _Section:
    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.words: list[str] = []
        self._key = ""

    def add(self, key: str, value: str) -> None:
        """Add a line. One without a key goes on with the words before it."""
        self._key = key or self._key
        if self._key == "text":
            self.words.append(value)
        elif key:
            self.fields[key] = value


def _end_section(section: _Section | None) -> Iterator[SearchEntry]:
    if section is None:
        return
    url, title, page_age = [section.fields.get(name, "") for name in ("url", "title", "page_age")]
    entry = _make_entry(url, title, "\n".join(section.words), page_age)
    if entry is not None:
        yield entry


def _read_text(text: str) -> Iterator[SearchEntry]:
    """Read links and bare URLs. The whole text is the words of the first."""
    words = text
    for found in _LINK.finditer(text):
        url = found["link"] or found["url"].rstrip(".,;:!?*_)}")
        entry = _make_entry(url, found["title"] or "", words)
        if entry is not None:
            yield entry
            words = ""
