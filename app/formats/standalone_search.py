"""The body of `POST /v1/alpha/search`, with which Codex searches by itself, and the text that answers it.

A request has commands: searches, pages to open, words to find in them. Pages are named by their URLs, or by the marks
that earlier answers have given them: `turn0search1` is the second page of the first request of a session.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.chat.hosted_tools import HostedAsk, SearchEntry, write_entry
from app.chat.messages import Message, Text
from app.errors import InvalidInput, Violation
from app.formats.hosted_asks import read_context_size, read_domains
from app.formats.json_object import parse_object
from app.validation.violations import describe_given

Json = Mapping[str, Any]
MAX_COMMANDS = 8
"""Of each kind in one request."""
_RUN = ("search_query", "open", "find")
_SETTINGS = ("response_length",)
_MAX_SHOWN = 40
_AROUND = 2
"""How many lines around a found one are shown."""
_MAX_FOUND = 20
_MARK = re.compile(r"turn\d+(?:search|view)\d+")


class PageCommand(Struct, frozen=True):
    page: str
    """A URL, or the mark of a page."""
    pattern: str | None = None
    """Only the lines around these words are shown; None: the whole page."""

    @property
    def is_mark(self) -> bool:
        return _MARK.fullmatch(self.page) is not None


class SearchCommand(Struct, frozen=True):
    query: str
    ask: HostedAsk


class SearchBody(Struct, frozen=True):
    session: str
    model: str | None
    searches: tuple[SearchCommand, ...]
    pages: tuple[PageCommand, ...]
    others: tuple[str, ...]
    """The names of commands that are not run."""
    messages: tuple[Message, ...]
    """What others than the model have said in the conversation."""
    offline: bool
    max_tokens: int | None


def parse_search_body(raw: bytes | bytearray) -> SearchBody:
    """Raises BadRequest, and InvalidInput with every violation."""
    body = parse_object(raw)
    reader = _Reader(body)
    found = reader.read()
    if reader.violations:
        raise InvalidInput(reader.violations)
    return found


class _Reader:
    def __init__(self, body: Json) -> None:
        self._body = body
        self.violations: list[Violation] = []

    def read(self) -> SearchBody:
        body = self._body
        session, model, tokens = body.get("id"), body.get("model"), body.get("max_output_tokens")
        if not isinstance(session, str) or not session:
            self._refuse("id", f"must be the id of the session{describe_given(session)}")
        if not isinstance(model, str | None):
            self._refuse("model", f"must be a string{describe_given(model)}")
        if tokens is not None and (type(tokens) is not int or tokens < 1):
            self._refuse("max_output_tokens", f"must be an integer of 1 or more{describe_given(tokens)}")
        commands, settings = self._read_object("commands"), self._read_object("settings")
        return SearchBody(
            str(session),
            model if isinstance(model, str) and model else None,
            tuple(self._read_searches(commands, settings)),
            (*self._read_pages(commands, "open"), *self._read_pages(commands, "find")),
            tuple(name for name in commands if name not in (*_RUN, *_SETTINGS) and commands[name]),
            _list_messages(body.get("input")),
            settings.get("external_web_access") is False,
            tokens if type(tokens) is int else None,
        )

    def _refuse(self, path: str, message: str) -> None:
        self.violations.append(Violation(path, message))

    def _read_object(self, name: str) -> Json:
        value = self._body.get(name)
        if isinstance(value, dict | None):
            return value or {}
        self._refuse(name, f"must be an object{describe_given(value)}")
        return {}

    def _read_list(self, commands: Json, name: str) -> list[tuple[str, Json]]:
        """Return the commands of a kind, each with its path."""
        value = commands.get(name)
        path = f"commands.{name}"
        if not isinstance(value, list | None) or not all(isinstance(one, dict) for one in value or ()):
            self._refuse(path, f"must be a list of objects{describe_given(value)}")
            return []
        if value is not None and len(value) > MAX_COMMANDS:
            self._refuse(path, f"has {len(value)} entries; at most {MAX_COMMANDS} are allowed")
            return []
        return [(f"{path}[{place}]", one) for place, one in enumerate(value or ())]

    def _read_searches(self, commands: Json, settings: Json) -> list[SearchCommand]:
        filters = settings.get("filters")
        allowed, blocked, mistakes = read_domains(filters if isinstance(filters, dict) else {}, "settings.filters")
        self.violations += mistakes
        size = read_context_size(settings) if settings.get("search_context_size") is not None else None
        found = []
        for number, (path, given) in enumerate(self._read_list(commands, "search_query")):
            own, _, mistakes = read_domains({"allowed_domains": given.get("domains")}, path)
            self.violations += [Violation(f"{path}.domains", one.message) for one in mistakes]
            query, recency = given.get("q"), given.get("recency")
            ask = HostedAsk(
                *("web_search", f"search{number}", path),
                allowed_domains=own or allowed,
                blocked_domains=() if own else blocked,
                location=settings.get("user_location"),
                max_results=size,
                recency=recency if type(recency) is int else None,
            )
            found.append(SearchCommand(query if isinstance(query, str) else "", ask))
        return found

    def _read_pages(self, commands: Json, name: str) -> list[PageCommand]:
        found = []
        for path, given in self._read_list(commands, name):
            page, pattern = given.get("ref_id"), given.get("pattern")
            if not isinstance(page, str) or not page:
                self._refuse(f"{path}.ref_id", f"must be a URL or the mark of a page{describe_given(page)}")
            elif name == "find" and (not isinstance(pattern, str) or not pattern):
                self._refuse(f"{path}.pattern", f"must be the words to find{describe_given(pattern)}")
            else:
                found.append(PageCommand(page, pattern if name == "find" else None))
        return found


def _list_messages(given: Any) -> tuple[Message, ...]:
    """Return what others than the model have said, for the URLs that stand in it."""
    if isinstance(given, str):
        return (Message("user", (Text(given),)),)
    texts: list[str] = []
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict) and item.get("role") != "assistant":
            texts += _list_texts(item.get("content"))
            texts += _list_texts(item.get("output"))
    return tuple(Message("user", (Text(text),)) for text in texts)


def _list_texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else ()
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def write_marked(entries: Sequence[SearchEntry], turn: int, first: int) -> tuple[str, dict[str, str]]:
    """Return the text of pages that a search has found, and their URLs by their marks. `first` is the number of the
    first one."""
    marks = {f"turn{turn}search{number}": entry for number, entry in enumerate(entries, first)}
    text = "\n\n".join([write_entry(mark, entry) for mark, entry in marks.items()])
    return text, {mark: entry.url for mark, entry in marks.items()}


def write_page(mark: str, url: str, text: str, pattern: str | None) -> str:
    """Return the text of a page, or the lines around the words that were looked for."""
    return f"[{mark}] {url}\n{text if pattern is None else _find_lines(text, pattern)}"


def _find_lines(text: str, pattern: str) -> str:
    lines, wanted = text.split("\n"), pattern.casefold()
    places = [place for place, line in enumerate(lines) if wanted in line.casefold()][:_MAX_FOUND]
    if not places:
        return f"The page does not have {pattern[:_MAX_SHOWN]!r}."
    shown = sorted({at for place in places for at in range(place - _AROUND, place + _AROUND + 1)})
    return "\n".join([f"L{at + 1}: {lines[at]}" for at in shown if 0 <= at < len(lines)])


def describe_others(names: Sequence[str]) -> str:
    """Return what is said of commands that are not run."""
    shown = ", ".join(repr(name[:_MAX_SHOWN]) for name in names[:20])
    return f"These commands cannot be run here: {shown}. Only search_query, open and find can."
