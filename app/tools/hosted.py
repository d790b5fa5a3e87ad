"""`HostedSession`: the tools of one reply, of which some are searches and fetches in the words of the client's API.

Each of those is a tool of a configured server under another name. What its server answers is read as a list of pages or
as the text of one.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.access import ModelGlobs
from app.chat.hosted_tools import (
    HostedAsk,
    HostedError,
    HostedKind,
    HostedResult,
    cut_entries,
    write_entries,
)
from app.chat.messages import Message, Text, ToolResult
from app.chat.server_tools import ListedServer, OfferedTool, ToolAnswer, ToolBounds, ToolSession, refuse_call
from app.chat.token_estimate import BYTES_PER_TOKEN
from app.chat.web_domains import allows_url
from app.errors import MediaRefused, MediaUnavailable

MAX_QUERY = 1000
"""The longest query, in characters."""
MAX_URL = 2048
_INVALID_PARAMS, _NOT_RUN = -32602, -32000
_TOO_MANY_REQUESTS, _TOO_LARGE = 429, 413
_DESCRIPTIONS: Mapping[HostedKind, str] = {
    "web_search": "Searches the web, and returns the titles, addresses and words of the pages that fit the query.",
    "web_fetch": "Reads one page of the web. Its URL must stand in the conversation or in the results of a search.",
}
_ARGUMENTS: Mapping[HostedKind, tuple[str, str]] = {
    "web_search": ("query", "What to search for."),
    "web_fetch": ("url", "The address of the page."),
}
_IN_URL = re.compile(r"[\w/%&=?@~+-]|[.,;:!*'][\w/%&=?@~+-]")
"""What goes on with a URL behind its beginning."""

_SAYS_TOO_MANY = re.compile(r"\b429\b")

CheckAddresses: TypeAlias = Callable[[str], Awaitable[None]]
"""Raises MediaRefused for a URL whose address is not public, and MediaUnavailable if it is not found."""


class HostedTool(Struct, frozen=True):
    """What the configuration says of a search or a fetch."""

    kind: HostedKind
    server: str
    tool: str
    text_argument: str
    """The tool's name of the query or the URL."""
    count_argument: str | None = None
    allowed_argument: str | None = None
    blocked_argument: str | None = None
    location_argument: str | None = None
    recency_argument: str | None = None
    max_results: int = 10
    max_uses: int = 8
    max_content_tokens: int = 20_000
    known_urls: bool = True
    """Only pages are fetched whose URL stands in the conversation."""
    searches_offline: bool = False
    first_call: bool = True
    """The first call to the model is to search, for an agent whose request is for nothing else."""
    models: ModelGlobs = ModelGlobs(("*",))
    per_call: float = 0.0
    """The price of one."""


class CallServer(Struct, frozen=True):
    """How a search or a fetch reaches its server."""

    call: Callable[[dict[str, Any], bytes | None], Awaitable[ToolAnswer]]
    max_bytes: int
    """Of the text of a result."""


class HostedUse:
    """A search or a fetch of one reply."""

    def __init__(self, tool: HostedTool, ask: HostedAsk, server: CallServer) -> None:
        self.ask = ask
        self.tool = tool
        self._server = server
        self._uses = 0

    def offer(self, context: "_Context") -> OfferedTool:
        tool, (name, words) = self.tool, _ARGUMENTS[self.ask.kind]
        parameters = {
            "type": "object",
            "properties": {name: {"type": "string", "description": words}},
            "required": [name],
        }
        description = _DESCRIPTIONS[tool.kind]
        names = (self.ask.name, tool.server, tool.tool)
        offered = OfferedTool(*names, description, parameters, hosted=tool.kind, resumes=self.ask.required)
        may_wait = tool.kind == "web_fetch" and tool.known_urls and not self.ask.required
        return replace(offered, waits=True) if may_wait and not context.has_url() else offered

    async def call(self, arguments: dict[str, Any], traceparent: bytes | None, context: "_Context") -> ToolAnswer:
        name, _ = _ARGUMENTS[self.ask.kind]
        text = arguments.get(name)
        if not isinstance(text, str) or not text.strip():
            return self._refuse("invalid_tool_input", f"the call has no text in {name!r}.")
        most = self.tool.max_uses if self.ask.max_uses is None else self.ask.max_uses
        if self._uses >= most:
            return self._refuse("max_uses_exceeded", f"the call was not run, because only {most} are allowed.")
        refused = await self._check(text, context)
        if refused is not None:
            return refused
        self._uses += 1
        answer = await self._server.call(self._write_arguments(text), traceparent)
        if answer.error is not None:
            return replace(answer, hosted=HostedResult(self.tool.kind, url=text, error=_find_code(answer)))
        return self._read_pages(answer) if self.tool.kind == "web_search" else self._read_page(answer, text)

    async def _check(self, text: str, context: "_Context") -> ToolAnswer | None:
        """Return the answer to a call that may not be run."""
        if self.tool.kind == "web_search":
            if len(text) <= MAX_QUERY:
                return None
            return self._refuse("query_too_long", f"the query has more than {MAX_QUERY} characters.")
        if len(text) > MAX_URL:
            return self._refuse("url_too_long", f"the URL has more than {MAX_URL} characters.")
        if self.tool.known_urls and not context.knows(text):
            return self._refuse(
                "url_not_in_prior_context", "the URL stands neither in the conversation nor in a result."
            )
        if not allows_url(text, self.ask.allowed_domains, self.ask.blocked_domains):
            return self._refuse("url_not_allowed", "pages of this domain are not allowed.")
        try:
            await context.check_addresses(text)
        except MediaRefused as error:
            return self._refuse("url_not_allowed", f"the URL is refused: {error}.")
        except MediaUnavailable:
            return None  # the server of the tool may know the name
        return None

    def _refuse(self, code: HostedError, message: str) -> ToolAnswer:
        number = _INVALID_PARAMS if code == "invalid_tool_input" else _NOT_RUN
        return replace(refuse_call(message, number), hosted=HostedResult(self.tool.kind, error=code))

    def _write_arguments(self, text: str) -> dict[str, Any]:
        tool, ask = self.tool, self.ask
        given = {
            tool.count_argument: min(tool.max_results, ask.max_results or tool.max_results),
            tool.allowed_argument: list(ask.allowed_domains) or None,
            tool.blocked_argument: list(ask.blocked_domains) or None,
            tool.location_argument: ask.location,
            tool.recency_argument: ask.recency,
        }
        beside = {name: value for name, value in given.items() if name is not None and value is not None}
        return {tool.text_argument: text, **beside}

    def _read_pages(self, answer: ToolAnswer) -> ToolAnswer:
        found, ask = answer.entries or (), self.ask
        most = min(self.tool.max_results, ask.max_results or self.tool.max_results)
        kept = [entry for entry in found if allows_url(entry.url, ask.allowed_domains, ask.blocked_domains)][:most]
        entries = cut_entries(kept, self._server.max_bytes)
        result = HostedResult("web_search", entries)
        if found or not any(isinstance(part, Text) and part.text.strip() for part in answer.content):
            return _with_text(answer, write_entries(entries), result)
        return replace(answer, hosted=result)

    def _read_page(self, answer: ToolAnswer, url: str) -> ToolAnswer:
        tokens = min(self.tool.max_content_tokens, self.ask.max_content_tokens or self.tool.max_content_tokens)
        text = "\n".join(part.text if isinstance(part, Text) else f"[{part.media}]" for part in answer.content)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        result = HostedResult("web_fetch", url=url, retrieved_at=now)
        return _with_text(answer, _cut(text, tokens * BYTES_PER_TOKEN), result)


class _Context:
    """What the conversation of a reply says, for the URLs that stand in it."""

    def __init__(self, messages: Sequence[Message], check_addresses: CheckAddresses) -> None:
        self._messages = messages
        self._texts: list[str] | None = None
        self._results: list[str] = []
        self.check_addresses = check_addresses

    def add_text(self, text: str) -> None:
        self._results.append(text)

    def add(self, answer: ToolAnswer) -> None:
        self._results += (part.text for part in answer.content if isinstance(part, Text))

    def knows(self, url: str) -> bool:
        """Whether a URL stands in what others than the model have written. Its fragment does not count."""
        page = url.partition("#")[0]
        return any(_stands_in(page, text) for text in self._list())

    def has_url(self) -> bool:
        return any("http://" in text or "https://" in text for text in self._list())

    def _list(self) -> list[str]:
        if self._texts is None:
            self._texts = [text for message in self._messages for text in _list_texts(message)]
        return [*self._results, *self._texts]


class HostedSession:
    """Implements `app.chat.server_tools.ToolSession`."""

    def __init__(
        self,
        session: ToolSession,
        uses: Sequence[HostedUse],
        messages: Sequence[Message],
        check_addresses: CheckAddresses,
    ) -> None:
        """`session` has all other tools."""
        self._session = session
        self._uses = {use.ask.name: use for use in uses}
        self._context = _Context(messages, check_addresses)
        self.servers = [
            *session.servers,
            ListedServer("", tuple(use.offer(self._context) for use in uses), hosted=True),
        ]

    @property
    def warnings(self) -> Sequence[str]:
        return self._session.warnings

    @property
    def bounds(self) -> ToolBounds:
        return self._session.bounds

    async def call(self, tool: OfferedTool, arguments: dict[str, Any], traceparent: bytes | None) -> ToolAnswer:
        if tool.hosted is None:
            answer = await self._session.call(tool, arguments, traceparent)
        else:
            answer = await self._uses[tool.name].call(arguments, traceparent, self._context)
        self._context.add(answer)
        return answer

    def add_known(self, url: str) -> None:
        """Let a page be fetched that an earlier request has found."""
        self._context.add_text(url)

    async def run(self, name: str, text: str) -> ToolAnswer:
        """Run a search or a fetch of this name with a query or a URL."""
        use = self._uses[name]
        tool = use.offer(self._context)
        return await self.call(tool, {_ARGUMENTS[use.ask.kind][0]: text}, None)

    def close(self) -> None:
        self._session.close()


def _with_text(answer: ToolAnswer, text: str, result: HostedResult) -> ToolAnswer:
    content = (Text(text),)
    return replace(answer, content=content, size=len(text.encode("utf-8", "replace")), entries=None, hosted=result)


def _cut(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    kept = data[:most].decode(errors="ignore")
    return f"{kept}\n[… {len(data) - len(kept.encode())} of {len(data)} bytes left out]"


def _find_code(answer: ToolAnswer) -> HostedError:
    """Return the API's word for why a call failed at its server."""
    error = answer.error
    assert error is not None
    code = error.code if error.kind == "http" else 0
    if code == _TOO_MANY_REQUESTS or _SAYS_TOO_MANY.search(error.message):
        return "too_many_requests"
    return "request_too_large" if code == _TOO_LARGE else "unavailable"


def _list_texts(message: Message) -> list[str]:
    if message.role == "assistant":
        return []
    found: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            found.append(part.text)
        elif isinstance(part, ToolResult):
            found += (one.text for one in part.content if isinstance(one, Text))
    return found


def _stands_in(url: str, text: str) -> bool:
    """Whether a text has a URL that does not go on behind this one. A slash at its end does not count."""
    page = url.rstrip("/")
    place = text.find(page)
    while place >= 0:
        end = place + len(page)
        end += text.startswith("/", end)
        if _IN_URL.match(text, end) is None:
            return True
        place = text.find(page, place + 1)
    return False
