"""`AppContext`: what all requests of one process share."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from app.access import Caller
from app.access.jwks import JwksSources
from app.api.agent_lists import AgentLists
from app.api.asgi import ClientDisconnected, Receive, Scope
from app.api.kept_descriptions import KeptDescriptions
from app.api.kept_reasoning import KeptReasoning
from app.api.kept_routes import KeptRoutes
from app.api.live_configuration import LiveConfiguration
from app.api.open_replies import OpenReplies, wait_for_disconnect
from app.cache import Cache, InFlightCall
from app.chat.stream import AttemptLog
from app.chat.token_usage import CallUsage, UsageOwner
from app.config.registry import ModelRegistry
from app.config.reload import Reloader
from app.config.settings import Settings
from app.config.tables.server import Server
from app.formats.request_memory import CallerMemory, RequestMemory
from app.gateway import Gateway
from app.limits import Limiter
from app.limits.admission import Admission, ClientLeft
from app.observe.ended_requests import EndedRequests, RecentRequests
from app.observe.metrics import Metrics
from app.observe.request_record import RequestRecord
from app.observe.trace_context import PassedTrace, RequestTrace, begin_trace, pass_trace
from app.routing import UpstreamStates
from app.runtime.memory_budget import MemoryBudget
from app.runtime.shared_reading import SharedReading
from app.state.watched import WatchedDatabase
from app.stores import StateStore
from app.upstream.catalog import Catalog
from app.upstream.credentials import CredentialStore, RenewingCredential
from app.upstream.http.client import UpstreamClient
from app.usage.ledger import UsageLedger
from app.usage.totals import Totals

if TYPE_CHECKING:
    from app.api.alerting import Alerting
    from app.api.key_watcher import KeyWatcher
    from app.observe.request_log.log import RequestLog
    from app.tools import McpServers

STATUS_SECONDS = 1.0
"""How often those who follow the status get it, at most."""


@dataclass(slots=True)
class AppContext:
    live: LiveConfiguration
    replies: OpenReplies
    cache: Cache
    budget: MemoryBudget
    """The memory that all requests together may hold."""
    requests: RequestMemory
    """What was read of earlier requests."""
    state: StateStore
    """Keeps what later requests rely on."""
    kept_routes: KeptRoutes
    """The models that virtual models have chosen for sessions."""
    upstreams: UpstreamStates
    admission: Admission
    client: UpstreamClient
    """Sends the requests to model servers."""
    ended: EndedRequests
    """Reports the requests for a reply that have ended."""
    recent: RecentRequests
    """The last requests that have ended."""
    reasoning: KeptReasoning | None
    """None if dropped reasoning is not restored."""
    metrics: Metrics | None
    """None if they are off."""
    usage_ledger: UsageLedger | None
    """Counts usage and cost; None if they are not counted."""
    trace_ratio: float | None
    """How many of the traces that begin here are recorded, from 0 to 1; None if tracing is off."""
    captures_content: bool
    """Whether the spans of a recorded trace have the messages of requests and replies."""
    reloader: Reloader | None
    """None if the settings are not from a file and the environment."""
    jwks: JwksSources
    """The keys of issuers of JWTs."""
    credentials: CredentialStore
    """The keys for model servers that are renewed."""
    agent_lists: AgentLists
    """What lists of models say to agents."""
    databases: Mapping[str, WatchedDatabase]
    """The state database as `state`, and that of usage as `usage`, where it is another one."""
    request_log: "RequestLog | None" = None
    """Keeps the bodies of requests; None if that is off."""
    tools: "McpServers | None" = None
    """The servers of tools that the gateway runs; None if none is configured."""
    alerting: "Alerting | None" = None
    """Sends alerts; None if there are no receivers."""
    key_watcher: "KeyWatcher | None" = None
    """Applies the API keys of the state database; None if there are none."""
    websockets: int = 0
    """How many sockets are open."""
    descriptions: KeptDescriptions = field(default_factory=KeptDescriptions)
    """What models have said of media for models that do not take them."""
    draining: bool = False
    """The process is shutting down: load balancers should send requests elsewhere."""
    status: SharedReading[str] = field(default_factory=lambda: SharedReading(STATUS_SECONDS))
    """The JSON of the status, for all who follow it."""

    @property
    def settings(self) -> Settings:
        return self.live.settings

    @property
    def server(self) -> Server:
        return self.live.settings.server

    @property
    def gateway(self) -> Gateway:
        return self.live.gateway

    @property
    def registry(self) -> ModelRegistry:
        return self.live.registry

    @property
    def limiter(self) -> Limiter | None:
        return self.live.limiter

    @property
    def catalog(self) -> Catalog | None:
        return self.live.catalog

    def list_credentials(self) -> list[tuple[str, RenewingCredential]]:
        """Return the keys that are renewed, with the names of their upstreams."""
        return [(one.name, one.credential) for one in self.registry.targets() if one.credential is not None]

    def on_hangup(self) -> None:
        """Read the configuration and the credentials of model servers again."""
        if self.reloader is not None:
            self.reloader.request()
        self.credentials.renew_all()

    def cache_scope(self, scope: Scope) -> str:
        """Return the scope in which the reply to this request is cached; "" if all callers share their replies."""
        if not self.live.separate_callers:
            return ""
        return scope["state"]["caller"].scope or _hash_authorization(scope)

    def caller_id(self, scope: Scope) -> str:
        """Return the identity of the caller, under which responses and reasoning are stored for later requests: that
        of the API key, or without one a hash of the Authorization header. `cache.scope` does not change it."""
        name: str = scope["state"]["caller"].identity
        return f"key {name}" if name else _hash_authorization(scope)

    def open_request_memory(self, scope: Scope) -> CallerMemory | None:
        """Return what is remembered of the caller's requests, for a body of MIN_BYTES or more; None if nothing is."""
        return self.requests.open(self.caller_id(scope))

    def sharer_id(self, scope: Scope) -> str:
        """Return who shares the document workers with others: the caller, or the address of one without any key."""
        id_ = self.caller_id(scope)
        client = scope.get("client")
        return f"address {client[0]}" if id_ == _NO_KEY and client else id_

    def owner(self, scope: Scope) -> str:
        """Return the identity of those who may resume and cancel the reply to this request: that of the API key.
        Without a key it is "", which is everyone, or a hash of the Authorization header if `cache.scope` is
        "caller"."""
        name: str = scope["state"]["caller"].identity
        if name or not self.live.separate_callers:
            return name
        return _hash_authorization(scope)

    @property
    def in_progress(self) -> int:
        """The requests that are admitted and have not ended."""
        return self.admission.in_progress

    async def wait_for_place(self, scope: Scope, receive: Receive) -> Admission:
        """Wait in the queue until the request may run. Raises Busy, and ClientDisconnected."""
        caller: Caller = scope["state"]["caller"]
        try:
            return await self.admission.wait(caller.name, partial(wait_for_disconnect, receive))
        except ClientLeft:
            raise ClientDisconnected from None

    def begin_trace(self, scope: Scope) -> PassedTrace | RequestTrace | None:
        """Begin the trace of a request, or pass the caller's on if tracing is off."""
        traceparent: bytes | None = scope["state"].get("traceparent")
        if self.trace_ratio is not None:
            return begin_trace(traceparent, scope["headers"], scope["path"], self.trace_ratio)
        return None if traceparent is None else pass_trace(traceparent, scope["headers"])

    def finish_request(self, record: RequestRecord) -> None:
        """Give back what a request that has ended did not use of its limits, and report it."""
        if record.reservation is not None and self.limiter is not None:
            self.limiter.settle_record(record)
        self.ended.add(record)

    def count_frame(self, direction: str) -> None:
        """Count a frame of a socket: `in` or `out`."""
        if self.metrics is not None:
            self.metrics.count_frame(direction)

    def settle_at_end(self, call: InFlightCall, record: RequestRecord, attempts: AttemptLog) -> None:
        """Give back what a request that ends did not use of its limits when its call, which goes on, has ended."""
        if record.reservation is not None and self.limiter is not None:
            call.on_late_end = partial(self.limiter.settle_late, record.take_reservation(), attempts)

    def count_late_usage(self, owner: UsageOwner, model: str, usage: CallUsage) -> None:
        """Count the usage of a call that ended after its request, which was counted without it. `model` is the one
        that was requested."""
        model = usage.fallback_model or model
        if self.usage_ledger is not None:
            self.usage_ledger.add(owner, model, Totals.from_call(usage))
        if self.metrics is not None:
            self.metrics.count_late_usage(owner.key, model, usage)

    async def aclose(self) -> None:
        """End the replies that are still sent, and close the stores."""
        if self.alerting is not None:
            await self.alerting.aclose()
        await self.replies.aclose()
        await self.cache.aclose()
        await self.state.aclose()
        if self.tools is not None:
            await self.tools.aclose()
        if self.limiter is not None:
            await self.limiter.aclose()
        if self.catalog is not None:
            await self.catalog.aclose()
        await self.agent_lists.aclose()


_NO_KEY = "nobody"


def _hash_authorization(scope: Scope) -> str:
    """Identify a caller by the key for the model server that the request carries."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hashlib.blake2b(value, digest_size=16, person=b"parley-caller").hexdigest()
    return _NO_KEY
