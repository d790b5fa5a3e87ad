"""The model of a request, the upstreams that serve it, and a request that is ready to be sent to each of them."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from app.cache.key import KeyPart, cache_key
from app.chat.admitted import Admitted
from app.chat.attachments import PassageSearch
from app.chat.messages import ChatRequest, MediaKind, Source
from app.endpoints.answer import AnswerOptions
from app.endpoints.kinds import CHAT, PathName
from app.endpoints.meter import Estimate
from app.errors import ParleyError, UpstreamFailed
from app.profiles import Profile
from app.routing.rules import RouteRules
from app.routing.strategies import Strategy
from app.steps import pipeline
from app.steps.dropped_reasoning import NOTHING_WANTED, Wanted, find_wanted
from app.upstream.api import find_api
from app.upstream.causes import is_of_server
from app.upstream.http.client import Target
from app.upstream.http.transport import LongBody
from app.usage.meter import Price

HedgeDelay: TypeAlias = float | Literal["p95"]


MAX_KEYS = 16
"""A request is kept when it is repeated, and any number of callers may repeat it."""


class Deployment(Struct, frozen=True):
    """A model on an upstream: the server, the model's name there, and the profile of both."""

    target: Target
    model: str
    profile: Profile
    weight: float = 1.0
    priority: int = 1
    """Upstreams of the lowest number that is available get all requests."""

    def takes_body_of(self, api: str) -> bool:
        """Whether the body of a client of this API is sent as it came, but for what is changed."""
        return self.target.api == api and self.profile.passed_bodies

    def takes_source(self, source: Source | None) -> bool:
        """Whether what nothing changed of a request is sent as it came. A server that knows only what all know is asked
        for a summary in words."""
        if source is None or not self.takes_body_of(source.api):
            return False
        return not source.asks_summary or self.profile.takes == "all"


class ModelRoute(Struct, frozen=True):
    """A model under the name that callers use, with its deployments."""

    model: str
    deployments: tuple[Deployment, ...]
    defaults: Mapping[str, Any]
    max_retries: int = 0
    cache_seconds: float | None = None
    """How long the cache may answer with a reply; None if it never does."""
    strategy: Strategy = "least_busy"
    fallbacks: tuple[str, ...] = ()
    """The models that are tried, in order, when this one fails with a fault that may be retried."""
    fallbacks_on_context_length: tuple[str, ...] = ()
    fallbacks_on_content_filter: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    """The limit from the request to the first token, all attempts together."""
    hedge_after: HedgeDelay | None = None
    """When a second request is sent if no token has come: after so many seconds, or after the 95th percentile of this
    model's time to the first token. None: never."""
    price: Price | None = None
    passages: PassageSearch | None = None
    """How long files are searched, where a request does not say."""
    enforces_output: bool = False
    """A reply to a request with a JSON schema is held back until it is valid."""
    reads_sessions: bool = False
    """The session of a request decides which server gets it, or a hash of it is sent to the server."""
    rules: RouteRules | None = None
    """What chooses the model of a request for a virtual model, whose deployments are those of its default model; None
    for any other model."""
    endpoints: tuple[str, ...] = (CHAT,)
    """What the model serves: `app.endpoints.kinds`."""
    describe_with: str | None = None
    """The model that describes media which this one does not take."""
    described: tuple[MediaKind, ...] = ()
    """These media."""
    wanted: Wanted = NOTHING_WANTED
    """What its servers want back of the reasoning that clients drop: always set from their profiles."""
    has_fallbacks: bool = False
    """It has fallbacks of any kind: always set from them."""

    def __post_init__(self) -> None:
        force_setattr(self, "wanted", find_wanted([deployment.profile for deployment in self.deployments]))
        has_any = self.fallbacks or self.fallbacks_on_context_length or self.fallbacks_on_content_filter
        force_setattr(self, "has_fallbacks", bool(has_any))

    def list_fallbacks(self) -> list[str]:
        """Return the models that may answer in place of this one."""
        names = (*self.fallbacks, *self.fallbacks_on_context_length, *self.fallbacks_on_content_filter)
        return list(dict.fromkeys(names))

    def with_fallbacks(self, allows: Callable[[str], bool]) -> "ModelRoute":
        """Return the route with those of its fallbacks that are allowed."""
        return replace(
            self,
            fallbacks=tuple(filter(allows, self.fallbacks)),
            fallbacks_on_context_length=tuple(filter(allows, self.fallbacks_on_context_length)),
            fallbacks_on_content_filter=tuple(filter(allows, self.fallbacks_on_content_filter)),
        )

    def fallbacks_after(self, error: ParleyError) -> tuple[str, ...]:
        """Return the models to try after this error."""
        if error.code == "context_length_exceeded":
            return self.fallbacks_on_context_length
        if error.code == "content_filter":
            return self.fallbacks_on_content_filter
        lasts = isinstance(error, UpstreamFailed) and is_of_server(error.fault)
        return self.fallbacks if error.retryable or lasts else ()


class PassingRequest(Struct, frozen=True):
    """What is known of a request that is no conversation, beside its body."""

    name: PathName
    """That of its endpoint."""
    path: str
    """As the client named it."""
    answer: AnswerOptions
    estimate: Estimate
    uploads: tuple[LongBody, ...] = ()
    """The bodies of a request with files, one for each deployment."""
    content_type: str | None = None
    """Of these."""
    own_paths: tuple[str, ...] = ()
    """Where each deployment has the same in the client's own API, below its `base_url`; an empty text: nowhere. Without
    any, none has."""


class PreparedRequest(Struct, frozen=True):
    """A request that passed all checks, with a body for each deployment."""

    route: ModelRoute
    """The route, with only the deployments that can serve this request."""
    request: ChatRequest
    """The caller's request without its messages. The parsing of the reply depends on it."""
    bodies: tuple[bytes, ...]
    """One for each deployment."""
    warnings: tuple[str, ...]
    max_retries: int
    wait_seconds: float | None
    deterministic: bool = False
    """Whether every deployment should give the same reply each time."""
    prompt_tokens: int = 0
    """An estimate, for a server that does not count them."""
    prefix: bytes = b""
    """A hash of the session or of the beginning of the conversation, for the strategies that need one."""
    original: Admitted | None = None
    """The caller's whole request, if another model may have to answer it."""
    error: ParleyError | None = None
    """Why no deployment can serve the request, if only another model can."""
    passed: tuple[bool, ...] = ()
    """For which of the bodies the client gets the events of the server; empty: none."""
    own: tuple[bool, ...] = ()
    """Which bodies have parts of the client's body; empty: none."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers of the client that belong to its own body."""
    beginnings: tuple[bytes, ...] = ()
    """Of each body, the messages at its beginning that are remembered; empty: of none."""
    passing: PassingRequest | None = None
    """Set for a request that is no conversation, whose body and answer pass through."""
    keys: dict[str, str] = {}
    """What `key` has returned, by scope: at most `MAX_KEYS`."""

    def is_passed(self, index: int) -> bool:
        """Whether the client gets the events of this deployment's server itself."""
        return bool(self.passed) and self.passed[index]

    def is_own(self, index: int) -> bool:
        """Whether the body of this deployment has parts of the client's body."""
        return bool(self.own) and self.own[index]

    @property
    def endpoint(self) -> str:
        """The endpoint of a request that is no conversation, else an empty text."""
        return "" if self.passing is None else self.passing.name

    @property
    def has_one_attempt(self) -> bool:
        """Whether the request is sent once, whatever happens. Then its reply is opened at the head of the response."""
        route = self.route
        return (
            len(self.bodies if self.passing is None else self.passing.uploads or self.bodies) == 1
            and not self.max_retries
            and self.original is None
            and (self.passing is None or not route.fallbacks)
            and route.deadline_seconds is None
            and route.hedge_after is None
        )

    @property
    def size(self) -> int:
        """The size of what is kept of the request until the reply begins, in bytes. Deployments with identical bodies
        share one; the whole request counts as much as the largest."""
        if len(self.bodies) == 1 and self.original is None:
            return len(self.bodies[0])
        sizes = {id(body): len(body) for body in self.bodies}
        return sum(sizes.values()) + (max(sizes.values(), default=0) if self.original is not None else 0)

    def key(self, scope: str) -> str:
        """Return the key under which the reply is cached."""
        key = self.keys.get(scope)
        if key is None:
            if len(self.keys) >= MAX_KEYS:
                self.keys.clear()
            parts = [self._make_key_part(index) for index in range(len(self.bodies))]
            key = self.keys[scope] = cache_key(parts, scope)
        return key

    def _make_key_part(self, index: int) -> KeyPart:
        deployment, body = self.route.deployments[index], self.bodies[index]
        target = deployment.target
        traits = pipeline.reply_traits(self.request, deployment.profile)
        if self.request.guard is not None:
            traits |= self.request.guard.traits
        if self.own and self.own[index]:
            headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers]
            if self.is_passed(index):
                traits |= {"passed": headers}
            elif headers:
                traits |= {"headers": headers}
        return KeyPart(
            f"{target.base_url}?{target.query}" if target.query else target.base_url,
            deployment.model,
            body,
            traits,
            deployment.profile.encoded_reply_fields,
            deployment.target.variant,
            self.beginnings[index] if self.beginnings else b"",
            find_api(target.api).conversation,
            self.request.known,
        )
