"""`POST /v1/alpha/search`: Codex's own search, by the tools that are configured for searches and fetches.

What fails is said in the text of the answer, which the model reads: Codex repeats a request that fails five times.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from typing_extensions import override

from app.api.asgi import send_json
from app.api.context import AppContext
from app.api.model_rights import find_route
from app.api.recorded_endpoint import RecordedEndpoint
from app.api.request_in_progress import RequestInProgress
from app.chat.hosted_tools import HostedAsk
from app.chat.messages import Text
from app.chat.server_tools import ToolAnswer
from app.chat.token_estimate import BYTES_PER_TOKEN
from app.errors import Forbidden, NotFound
from app.formats.body import RejectedRequest
from app.formats.responses import RESPONSES
from app.formats.standalone_search import (
    PageCommand,
    SearchBody,
    describe_others,
    parse_search_body,
    write_marked,
    write_page,
)
from app.runtime.throttled_log import ThrottledLog
from app.stores import NotKept, StateStore, StoreError

if TYPE_CHECKING:
    from app.tools import HostedTool, McpServers
    from app.tools.hosted import HostedSession

log = logging.getLogger("parley.search")

_SECONDS = 3600.0
_MAX_MARKS = 200
"""Of one session."""
_MAX_SESSIONS = 10_000
_OPEN = "open"
_NOT_CONFIGURED = "no search is configured at this gateway: its operator can set hosted_tools.web_search"
_NO_PAGES = "Error: pages cannot be opened here: hosted_tools.web_fetch is not configured."
_OFFLINE = 'Error: live pages are switched off in the client: set web_search = "live".'


class SearchState(Struct):
    """What a session has got so far."""

    turn: int = 0
    """The number of the next request."""
    pages: dict[str, str] = {}
    """The URLs by their marks, the oldest first."""


class KeptSearches:
    """The sessions' states: in the store, which all workers share, and without one in the memory of this worker."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._throttled_log = ThrottledLog(log)

    async def find(self, key: str) -> SearchState:
        try:
            stored = await self._store.get(key)
            data = self._memory.get(key) if stored is None else stored.value
        except StoreError as error:
            self._throttled_log.warn("what a session has searched for cannot be read", error)
            data = self._memory.get(key)
        try:
            return SearchState() if data is None else msgspec.json.decode(data, type=SearchState)
        except msgspec.MsgspecError:
            return SearchState()

    async def keep(self, key: str, state: SearchState) -> None:
        pages = list(state.pages.items())[-_MAX_MARKS:]
        data = msgspec.json.encode(SearchState(state.turn, dict(pages)))
        self._memory[key] = data
        self._memory.move_to_end(key)
        if len(self._memory) > _MAX_SESSIONS:
            self._memory.popitem(last=False)
        try:
            await self._store.put(key, data, ttl_seconds=_SECONDS, model="")
        except NotKept:
            pass  # the gateway has no store
        except StoreError as error:
            self._throttled_log.warn("what a session has searched for cannot be stored", error)


class SearchEndpoint(RecordedEndpoint):
    """A plain ASGI callable."""

    def __init__(self, context: AppContext) -> None:
        super().__init__(context, "search", RESPONSES.error)
        self._kept = KeptSearches(context.state)

    @override
    async def _serve(self, request: RequestInProgress) -> RejectedRequest | None:
        context, scope = self._context, request.scope
        if context.tools is None or request.live.settings.hosted_tools.web_search is None:
            raise NotFound(_NOT_CONFIGURED)
        with request.lease:
            raw = await request.read_body()
            with context.admission.try_enter() or await context.wait_for_place(scope, request.receive):
                body = parse_search_body(raw)
                del raw
                output = await self._run(request, body, context.tools)
        await send_json(request.send, 200, {"output": output, "encrypted_output": None})
        request.record.status = 200
        return None

    async def _run(self, request: RequestInProgress, body: SearchBody, servers: "McpServers") -> str:
        model, search = await self._find_search(request, body, servers)
        key = _make_key(self._context.caller_id(request.scope), body.session)
        state = await self._kept.find(key)
        run = _Run(body, state)
        if body.searches or body.pages:
            if body.offline and not search.searches_offline:
                run.texts.append(_OFFLINE)
            else:
                fetch = servers.find_hosted("web_fetch", model)
                await run.run(servers, search, fetch, request)
        if body.others:
            run.texts.append(describe_others(body.others))
        request.record.count_searches(run.searches, run.fetches)
        request.record.cost = run.cost
        state.turn += 1
        await self._kept.keep(key, state)
        return run.write()

    async def _find_search(
        self, request: RequestInProgress, body: SearchBody, servers: "McpServers"
    ) -> "tuple[str, HostedTool]":
        """Return the name of the model, and what searches for it. Raises ParleyError."""
        gateway, record = request.live.gateway, request.record
        named = await gateway.resolve_model(body.model)
        record.requested_model = named
        route = find_route(gateway, named, request.caller)
        record.model = route.model
        search = servers.find_hosted("web_search", route.model)
        if search is None:
            raise NotFound(_NOT_CONFIGURED)
        refusal = servers.explain_refusal(search, request.caller.name, route.model)
        if refusal is not None:
            raise Forbidden(refusal)
        limiter = self._context.limiter
        if limiter is not None:
            reservation = await limiter.reserve(request.caller, route.model, lambda: 0, None, 0, lambda: 0)
            if reservation is not None:
                record.record_reservation(reservation)
                request.scope["state"]["response_headers"] += reservation.headers
        return route.model, search


class _Run:
    """The commands of one request."""

    def __init__(self, body: SearchBody, state: SearchState) -> None:
        self._body = body
        self._state = state
        self.texts: list[str] = []
        self.searches = 0
        self.fetches = 0
        self.cost = 0.0

    async def run(
        self, servers: "McpServers", search: "HostedTool", fetch: "HostedTool | None", request: RequestInProgress
    ) -> None:
        body = self._body
        asks = [(search, command.ask) for command in body.searches]
        if fetch is not None and not servers.explain_refusal(fetch, request.caller.name, request.record.model):
            asks.append((fetch, HostedAsk("web_fetch", _OPEN, "commands", max_uses=len(body.pages) or None)))
        session = servers.open_hosted(asks, body.messages, request.live.gateway.check_addresses)
        for url in self._state.pages.values():
            session.add_known(url)
        try:
            await self._search(session)
            await self._open(session, can_open=len(asks) > len(body.searches))
        finally:
            session.close()
            self.cost = self.searches * search.per_call + self.fetches * (0.0 if fetch is None else fetch.per_call)

    async def _search(self, session: "HostedSession") -> None:
        searches = self._body.searches
        answers = await asyncio.gather(*(session.run(one.ask.name, one.query) for one in searches))
        first = 0
        for answer in answers:
            self.searches += answer.outcome != "not_run"
            entries = () if answer.hosted is None else answer.hosted.entries
            if not entries:
                self.texts.append(_join(answer))
                continue
            text, marks = write_marked(entries, self._state.turn, first)
            first += len(entries)
            self.texts.append(text)
            self._state.pages = {**self._state.pages, **marks}

    async def _open(self, session: "HostedSession", *, can_open: bool) -> None:
        pages = self._body.pages
        if pages and not can_open:
            self.texts.append(_NO_PAGES)
            return
        urls = [self._state.pages.get(one.page, one.page) for one in pages]
        answers = await asyncio.gather(
            *(self._fetch(session, one, url) for one, url in zip(pages, urls, strict=True)),
        )
        for number, (one, url, answer) in enumerate(zip(pages, urls, answers, strict=True)):
            mark = f"turn{self._state.turn}view{number}"
            self.fetches += not isinstance(answer, str) and answer.outcome != "not_run"
            if isinstance(answer, str) or answer.error is not None:
                self.texts.append(answer if isinstance(answer, str) else _join(answer))
                continue
            self.texts.append(write_page(mark, url, _join(answer), one.pattern))
            self._state.pages = {**self._state.pages, mark: url}

    async def _fetch(self, session: "HostedSession", page: PageCommand, url: str) -> ToolAnswer | str:
        if page.is_mark and url == page.page:
            return f"Error: there is no page {page.page[:100]!r} in this session any more; give its URL."
        return await session.run(_OPEN, url)

    def write(self) -> str:
        text = "\n\n".join(self.texts) or "Nothing was asked for."
        if self._body.max_tokens is None:
            return text
        data = text.encode("utf-8", "replace")
        kept = data[: self._body.max_tokens * BYTES_PER_TOKEN].decode(errors="ignore")
        left = len(data) - len(kept.encode())
        return f"{kept}\n[… {left} of {len(data)} bytes left out]" if left else text


def _join(answer: ToolAnswer) -> str:
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.media}]" for part in answer.content)


def _make_key(caller: str, session: str) -> str:
    parts: Sequence[str] = (caller, session)
    return f"search {hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).hexdigest()}"
