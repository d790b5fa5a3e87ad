"""The journey of one request: which model, what it is sent, and its reply as events.

`prepare` does everything that can be refused before a byte goes out; `open` sends and waits for the server's word;
the `LiveReply` it returns pushes events at one receiver until its terminal event.
"""

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import msgspec

from app.attachments import AttachmentLoader
from app.cache import Cache, CachePolicy, CacheRequest, FoundReply
from app.cache.key import KeyPart, cache_key
from app.chat.attachments import Attachment
from app.chat.events import Fault
from app.chat.messages import ChatRequest, Media, ToolResult
from app.chat.stream import Attempt, AttemptLog
from app.chat.token_counter import TokenCounter
from app.errors import BadRequest, CacheMiss, InvalidInput, ParleyError, UnknownModel, UpstreamFailed
from app.memory_budget import UNCOUNTED_BYTES, Lease
from app.params import merge_params
from app.profiles import Profile, select_reply_fields
from app.steps import pipeline
from app.steps.media import MediaRequest
from app.upstream import request as upstream_request
from app.upstream.base_urls import BaseUrlCheck
from app.upstream.catalog import MAX_AGE_AFTER_REFUSAL_SECONDS, Catalog
from app.upstream.causes import WRONG_BASE_URL, describe_fault
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.model_names import MAX_SHOWN_NAME, join_names, suggest_model
from app.upstream.reply.stream import UpstreamStream

_P = ParamSpec("_P")
_T = TypeVar("_T")

NO_MEDIA: Mapping[MediaRequest, Attachment] = {}
RETRY_SECONDS = 0.5
"""The first wait before a request is sent again, doubled each time, where the server names no time itself."""
MAX_RETRY_SECONDS = 30.0
"""A server that asks for a longer wait is not waited for: the caller is told, and can wait better."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One way to a model: a server, the model's name there, and what the two can do."""

    target: Target
    model: str
    profile: Profile


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """A model as callers know it."""

    model: str
    deployments: tuple[Deployment, ...]
    defaults: Mapping[str, Any]
    max_retries: int = 0
    cache_seconds: float | None = None
    """How long a reply may be answered from the cache; None: it never is."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that nothing is left to refuse."""

    route: ModelRoute
    """With those of its ways that can take this request."""
    request: ChatRequest
    """The request as the caller made it, without its messages: by it the reply is read."""
    bodies: tuple[bytes, ...]
    """One for each way."""
    warnings: tuple[str, ...]
    max_retries: int
    wait_seconds: float | None
    deterministic: bool = False
    """Whichever way it takes, the reply is meant to be the same each time."""

    @property
    def size(self) -> int:
        """The bytes of its bodies; ways that are sent the same share one."""
        return sum({id(body): len(body) for body in self.bodies}.values())

    def key(self, scope: str) -> str:
        """Under which its reply is cached."""
        return cache_key([*map(self._part, self.route.deployments, self.bodies)], scope)

    def _part(self, way: Deployment, body: bytes) -> KeyPart:
        traits = pipeline.reply_traits(self.request, way.profile)
        return KeyPart(
            way.target.base_url, way.model, body, traits, select_reply_fields(way.profile), way.target.variant
        )


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """What a caller wants of a reply beyond what it says."""

    reply_id: str
    cache_policy: CachePolicy
    scope: str
    """Replies are shared among requests of one scope only."""
    keep_running: bool
    """The call goes on when the caller leaves."""
    attempts: AttemptLog
    """The requests to model servers are added to it."""
    lease: Lease
    """The memory of the request; it moves to the call that is made for it."""


class Gateway:
    def __init__(
        self,
        find: Callable[[str], ModelRoute | None],
        default_model: str | None,
        client: UpstreamClient,
        counter: Callable[[str | None], TokenCounter],
        loader: AttachmentLoader,
        cache: Cache,
        base_urls: BaseUrlCheck,
        *,
        known: Sequence[str],
        catalog: Catalog | None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """`known` are the configured models. `catalog` lists those of the pass-through's upstream; None: there is no
        pass-through."""
        self._find = find
        self._default_model = default_model
        self._client = client
        self._counter = counter
        self._loader = loader
        self._cache = cache
        self._known = known
        self._catalog = catalog
        self._base_urls = base_urls
        self._retry_seconds = retry_seconds

    async def resolve_model(self, named: str | None) -> str:
        """The name of the model for a request: as named, else the default, else the only one there is.

        Raises BadRequest where there is not exactly one, UpstreamFailed where the server cannot be asked.
        """
        name = named or self._default_model
        if name:
            return name
        names = list(dict.fromkeys((*self._known, *await self._list_passthrough_models())))
        if len(names) == 1:
            return names[0]
        raise BadRequest(f"`model` is required. {_choice(names)}", "model")

    async def _list_passthrough_models(self) -> Sequence[str]:
        """What the pass-through's server lists. A server that answers without a list lists nothing."""
        if self._catalog is None:
            return ()
        try:
            return await self._catalog.names()
        except UpstreamFailed as error:
            fault = await self._explain_path(error.fault, self._catalog.target)
            if fault.cause != WRONG_BASE_URL.word and _lists_nothing(fault):
                return ()
            raise UpstreamFailed(fault) from error

    def route(self, model: str) -> ModelRoute:
        """Raises UnknownModel."""
        route = self._find(model)
        if route is None:
            hint = suggest_model(model, self._known)
            raise UnknownModel(f"there is no model {_shorten_name(model)!r}{hint} (GET /v1/models lists them)", "model")
        return route

    def media_requests(self, route: ModelRoute, request: ChatRequest) -> list[MediaRequest]:
        """Media whose bytes are needed before this request can be prepared. Raises InvalidInput."""
        if not any(isinstance(part, Media | ToolResult) for message in request.messages for part in message.parts):
            return []
        request = replace(request, params=merge_params(route.defaults, request.params))
        sound = _keep_possible(
            [(way, _attempt(pipeline.check_request, request, way.profile)) for way in route.deployments]
        )
        passed = (one for way, _ in sound for one in pipeline.find_passed_urls(request, way.profile))
        if refused := self._loader.check_url_text(list(dict.fromkeys(passed))):
            raise InvalidInput(refused)
        needs = (one for way, _ in sound for one in pipeline.media_requests(request, way.profile))
        return list(dict.fromkeys(needs))

    async def load_media(
        self, wanted: list[MediaRequest], hold: Callable[[int], None]
    ) -> Mapping[MediaRequest, Attachment]:
        """`hold` is told how many bytes were fetched. Raises ParleyError for media that are refused or cannot be had,
        and what `hold` raises."""
        if not wanted:
            return NO_MEDIA
        return await self._loader.load(wanted, hold)

    def prepare(
        self, route: ModelRoute, request: ChatRequest, media: Mapping[MediaRequest, Attachment] = NO_MEDIA
    ) -> PreparedRequest:
        """Raises InvalidInput for what this model cannot be sent, ContextTooLong for what does not fit.

        A server that cannot be sent it is passed over where another can.
        """
        params = merge_params(route.defaults, request.params)
        request = replace(request, params=params)
        built: dict[tuple[str, int], _BuiltBody | ParleyError] = {}
        for way in route.deployments:
            key = (way.model, id(way.profile))
            if key not in built:
                built[key] = _attempt(self._build, request, way, media)
        bodies = _keep_possible([(way, built[way.model, id(way.profile)]) for way in route.deployments])
        warnings = dict.fromkeys(text for _, body in bodies for text in body.warnings)
        retries = params.get("max_retries")
        return PreparedRequest(
            route
            if len(bodies) == len(route.deployments)
            else replace(route, deployments=tuple(way for way, _ in bodies)),
            replace(request, messages=()),
            tuple(body.data for _, body in bodies),
            tuple(warnings),
            route.max_retries if retries is None else retries,
            params.get("request_timeout"),
            all(body.deterministic for _, body in bodies),
        )

    async def find(self, prepared: PreparedRequest, asked: ReplyOptions) -> FoundReply:
        """The reply from the cache, a call that is in progress, or a new one. Raises CacheMiss."""
        policy = asked.cache_policy
        if policy.only_deterministic and not prepared.deterministic:
            policy = policy.without_cache()
        if policy.only and not policy.read:
            raise CacheMiss("no reply is cached")
        request = CacheRequest(
            key=prepared.key(asked.scope) if policy.read or policy.write else "",
            model=prepared.route.model,
            policy=policy,
            ttl_seconds=policy.ttl_seconds or prepared.route.cache_seconds or 0.0,
            retries=prepared.max_retries,
            keep_running=asked.keep_running,
        )
        return await self._cache.find(request, lambda: self._open_with_lease(prepared, asked))

    async def _open_with_lease(self, prepared: PreparedRequest, asked: ReplyOptions) -> UpstreamStream:
        """The call holds the request's memory, since it may outlive its caller."""
        with asked.lease.move() as held:
            if prepared.size > UNCOUNTED_BYTES:
                held.change(prepared.size)
            return await self.open(prepared, asked.reply_id, asked.attempts)

    def _build(self, request: ChatRequest, way: Deployment, media: Mapping[MediaRequest, Attachment]) -> "_BuiltBody":
        seen, said = pipeline.prepare_request(request, way.profile, self._counter(way.profile.tokenizer), media)
        body, unsent = upstream_request.build(seen, way.model, way.profile)
        return _BuiltBody(
            msgspec.json.encode(body), (*said, *unsent), upstream_request.is_deterministic(body, way.profile)
        )

    async def open(self, prepared: PreparedRequest, reply_id: str, attempts: AttemptLog) -> UpstreamStream:
        """The reply, once a server has begun to answer. Raises UpstreamFailed with the last fault.

        A fault after which the same request may work is answered by the model's next server, then by sending again,
        `max_retries` times; nothing has been said to the caller by then. Each request is added to `attempts`.
        """
        max_attempts = max(len(prepared.route.deployments), 1) + prepared.max_retries
        clock = asyncio.get_running_loop().time
        for attempt in range(max_attempts):
            number = attempt % len(prepared.route.deployments)
            way = prepared.route.deployments[number]
            target = (
                way.target
                if upstream_request.should_stream(prepared.request, way.profile)
                else way.target.for_whole_reply()
            )
            target = target.with_timeout(prepared.wait_seconds)
            began = clock()
            try:
                body = await self._client.open(target, prepared.bodies[number])
            except UpstreamFailed as refused:
                seconds = clock() - began
                error = await self._explain(refused, way)
                attempts.add_attempt(_attempt_of(target, seconds, error.fault))
                if not error.retryable or attempt + 1 == max_attempts:
                    raise error from refused
                if attempt + 1 >= len(prepared.route.deployments):
                    round_ = attempt + 1 - len(prepared.route.deployments)
                    await asyncio.sleep(_retry_wait_seconds(error, round_, self._retry_seconds))
                continue
            attempts.add_attempt(_attempt_of(target, clock() - began, None))
            stages = pipeline.reply_stages(prepared.request, way.profile, reply_id)
            return UpstreamStream(body, reply_id, stages, target, _failure_adder(attempts, target, began))
        raise AssertionError("a route has at least one way")

    async def _explain(self, error: UpstreamFailed, way: Deployment) -> UpstreamFailed:
        """The error with what to do about it: which base_url, or which model was probably meant."""
        fault = await self._explain_path(error.fault, way.target)
        explained = UpstreamFailed(fault)
        if self._catalog is not None and way.target.name == self._catalog.target.name:
            if explained.is_server_fault:
                self._catalog.expire()
            elif fault.code == "not_found":
                message = fault.message + await self._suggest_model(way.model)
                return UpstreamFailed(msgspec.structs.replace(fault, message=message))
        return explained

    async def _explain_path(self, fault: Fault, target: Target) -> Fault:
        return await self._base_urls.explain(fault, target)

    async def _suggest_model(self, model: str) -> str:
        """What a server that does not know the model probably calls it."""
        assert self._catalog is not None
        try:
            return suggest_model(model, await self._catalog.names(MAX_AGE_AFTER_REFUSAL_SECONDS))
        except UpstreamFailed:
            return ""


@dataclass(frozen=True, slots=True)
class _BuiltBody:
    data: bytes
    warnings: tuple[str, ...]
    deterministic: bool


def _attempt(do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "_T | ParleyError":
    try:
        return do(*args, **kwargs)
    except ParleyError as error:
        return error


def _keep_possible(outcomes: "Sequence[tuple[Deployment, _T | ParleyError]]") -> "list[tuple[Deployment, _T]]":
    """Those that came to something. Raises the first refusal where none did."""
    found = [(way, outcome) for way, outcome in outcomes if not isinstance(outcome, ParleyError)]
    refusals = [outcome for _, outcome in outcomes if isinstance(outcome, ParleyError)]
    if not found:
        raise refusals[0]
    return found


def _attempt_of(target: Target, seconds: float, fault: Fault | None) -> Attempt:
    milliseconds = round(seconds * 1000, 1)
    if fault is None:
        return Attempt(target.name, target.base_url, milliseconds)
    return Attempt(target.name, target.base_url, milliseconds, fault.cause, describe_fault(fault))


def _failure_adder(attempts: AttemptLog, target: Target, began: float) -> Callable[[Fault], None]:
    """For a reply that breaks after the server began to answer."""

    def add(fault: Fault) -> None:
        if UpstreamFailed(fault).is_server_fault:
            attempts.add_failure(_attempt_of(target, asyncio.get_running_loop().time() - began, fault))

    return add


def _lists_nothing(fault: Fault) -> bool:
    """The server answers, and has no list of its models."""
    return fault.status in (404, 405, 501) or (fault.status == 200 and fault.code == "upstream_protocol")


def _choice(names: Sequence[str]) -> str:
    available = f"Available models: {join_names(names)}. " if names else "The model server lists none. "
    return f"{available}(Set default_model in parley.toml to make it optional.)"


def _shorten_name(name: str) -> str:
    return name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…"


def _retry_wait_seconds(error: UpstreamFailed, round_: int, first_seconds: float) -> float:
    """Seconds before asking again, once every server was asked. Raises the error where that would be too long."""
    named = error.fault.retry_after_seconds
    if named is None:
        return min(first_seconds * float(2**round_), MAX_RETRY_SECONDS) * (1 + random.random() / 2)
    if named > MAX_RETRY_SECONDS:
        raise error
    return named


def new_reply_id() -> str:
    return f"chat-{os.urandom(16).hex()}"
