"""`StoredVectors`: the vectors of one request for embeddings that are stored by their inputs.

The model's server is asked for the others only. Its answer is held back until it is whole if some vectors are known;
else it is passed on as it comes, and read beside that.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from app.api.cache_policy import read_cache_policy
from app.api.context import AppContext
from app.api.open_replies import PendingReply
from app.api.request_in_progress import RequestInProgress
from app.cache import CachePolicy
from app.calls.known_reply import KnownReply
from app.chat.events import AnswerPart, Event, Failed, Fault, Finish
from app.chat.stream import Origin, Receiver, Reply
from app.endpoints.body import EndpointBody
from app.endpoints.embeddings import (
    PATHS,
    Server,
    make_keys,
    read_inputs,
    read_vectors,
    select_inputs,
    write_answer,
)
from app.endpoints.usage import count_tokens
from app.errors import CacheMiss
from app.routing import PreparedRequest

MAX_READ_BYTES = 32 * 1024 * 1024
"""A longer answer is passed on, and nothing of it is stored."""
_JSON = (b"content-type", b"application/json")
_LENGTH = b"content-length"
_UNREADABLE = Fault("upstream_protocol", "the model server's answer has not one vector for each input", transient=False)


class StoredVectors(Struct, frozen=True):
    """Those of one request."""

    context: AppContext
    model: str
    policy: CachePolicy
    ttl_seconds: float
    keys: tuple[str, ...]
    """One for each input."""
    items: tuple[bytes | None, ...]
    """What is known of each input."""
    body: EndpointBody
    """What the server is asked."""
    origin: Origin

    @property
    def missing(self) -> list[int]:
        return [place for place, item in enumerate(self.items) if item is None]

    async def open(self, open_rest: Callable[[], PendingReply]) -> Reply:
        """Return the whole answer; `open_rest` asks the server. Raises ParleyError."""
        if None not in self.items:
            data = write_answer([item for item in self.items if item is not None], self.model)
            headers = (_JSON, (_LENGTH, b"%d" % len(data)))
            return KnownReply([AnswerPart(data, headers), Finish("stop", count_tokens(0))])
        return _CompletedReply(await open_rest(), self)

    def complete(self, data: bytes, *, store: bool) -> bytes | None:
        """Return the whole answer from that of the server, whose vectors are stored if they may be; None if it cannot
        be read."""
        missing = self.missing
        found = read_vectors(data, len(missing))
        if found is None:
            return None
        if store and self.policy.write:
            values = {self.keys[place]: item for place, item in zip(missing, found.items, strict=True)}
            self.context.cache.start_storing(values, self.ttl_seconds, self.model)
        if len(missing) == len(self.items):
            return data
        rest = iter(found.items)
        items = [next(rest) if item is None else item for item in self.items]
        return write_answer(items, self.model, found.fields)


async def find_vectors(
    context: AppContext, request: RequestInProgress, prepared: PreparedRequest, body: EndpointBody
) -> StoredVectors | None:
    """Return what is stored for a request; None if nothing of it may be. Raises CacheMiss, or InvalidInput for an
    unknown mode of the cache."""
    passing = prepared.passing
    if not request.live.settings.cache.embeddings or passing is None or passing.path not in PATHS or passing.own_paths:
        return None
    policy = read_cache_policy(None, request.scope, prepared.route, "always")
    inputs = read_inputs(body) if policy.read or policy.write else None
    if inputs is None:
        return None
    servers = [
        Server(one.target.base_url, one.model, one.target.variant, data)
        for one, data in zip(prepared.route.deployments, prepared.bodies, strict=True)
    ]
    keys = make_keys(servers, inputs, context.cache_scope(request.scope))
    found = await context.cache.read_values(keys, policy.max_age) if policy.read else {}
    items = tuple([found[key][0] if key in found else None for key in keys])
    missing = [item for item, known in zip(inputs, items, strict=True) if known is None]
    if missing and policy.only:
        raise CacheMiss("not all of these embeddings are cached")
    if len(missing) < len(items):
        body = select_inputs(body, missing)
    label = policy.label or ("miss" if missing else "hit")
    origin = Origin(label, None if missing else int(max(age for _, age in found.values())))
    ttl_seconds = policy.ttl_seconds or prepared.route.cache_seconds or 0.0
    return StoredVectors(context, prepared.route.model, policy, ttl_seconds, tuple(keys), items, body, origin)


class _CompletedReply:
    """The answer of a server, with the vectors that are known. It is the receiver of the answer."""

    def __init__(self, reply: Reply, vectors: StoredVectors) -> None:
        self._reply = reply
        self._vectors = vectors
        self._holds = any(item is not None for item in vectors.items)
        self._parts: list[AnswerPart] = []
        self._size = 0
        self._receiver: Receiver | None = None

    @property
    def fallback_model(self) -> str | None:
        return self._reply.fallback_model

    # Receiver of the answer.

    def on_events(self, events: list[Event]) -> None:
        assert self._receiver is not None
        self._keep([event for event in events if type(event) is AnswerPart])
        end = events[-1] if events else None
        if type(end) is Finish:
            events = self._end(events, end)
        elif type(end) is Failed:
            events = [end] if self._holds else events
        elif self._holds:
            events = []  # a sign of life
        self._receiver.on_events(events)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.on_events(events)

    def on_crash(self, error: Exception) -> None:
        assert self._receiver is not None
        self._receiver.on_crash(error)

    def _keep(self, parts: list[AnswerPart]) -> None:
        self._size += sum(len(part.data) for part in parts)
        if self._holds or self._size <= MAX_READ_BYTES:
            self._parts += parts
        else:
            self._parts.clear()

    def _end(self, events: list[Event], end: Finish) -> list[Event]:
        parts, self._parts = self._parts, []
        # The vectors of a fallback are said to be of the same space, but they are another model's.
        data = self._vectors.complete(b"".join([part.data for part in parts]), store=self.fallback_model is None)
        if not self._holds:
            return events
        if data is None:
            return [Failed(replace(_UNREADABLE, usage=end.usage))]
        headers = [line for part in parts[:1] for line in part.headers if line[0] != _LENGTH]
        return [AnswerPart(data, (*headers, (_LENGTH, b"%d" % len(data)))), end]

    # Reply.

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._reply.start(self)

    def pause(self) -> None:
        self._reply.pause()

    def resume(self) -> None:
        self._reply.resume()

    def tick(self, now: float) -> None:
        self._reply.tick(now)

    def close(self) -> None:
        self._reply.close()
