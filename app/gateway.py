"""`Gateway`: chooses the model of a request, prepares the request for its deployments, and opens the reply.

`prepare` makes all checks that need no model server. `open` sends the request (`app.routing`); the reply that it
returns pushes events to one receiver until its last event.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.attachments.loader import AttachmentLoader
from app.attachments.passages import FileSearch, find_question
from app.cache import Cache, CachePolicy, CacheRequest, Found
from app.chat.admitted import Admitted
from app.chat.attachments import Attachment, PassageSearch, Unreadable
from app.chat.events import Fault
from app.chat.fetched_urls import find_body_urls
from app.chat.messages import Beginning, ChatRequest, Source, TokenCounter
from app.chat.stream import AttemptLog, Reply
from app.chat.token_estimate import estimate_prompt_tokens
from app.chat.tool_asks import ServerAsk
from app.errors import (
    BadRequest,
    CacheMiss,
    ContextTooLong,
    Forbidden,
    InvalidInput,
    ParleyError,
    UnknownModel,
    UpstreamFailed,
    Violation,
)
from app.params import merge_params
from app.profiles import Profile
from app.routing import (
    RETRY_SECONDS,
    Deployment,
    ModelRoute,
    PreparedRequest,
    PrepareFallback,
    RetryBudget,
    UpstreamCaller,
    UpstreamStates,
)
from app.runtime.memory_budget import UNCOUNTED_BYTES, Lease
from app.runtime.ticker import Ticker
from app.runtime.token_counting import EstimatingCounter
from app.steps import pipeline
from app.steps.beginning import divide
from app.steps.media import (
    MediaRequest,
    extra_url_requests,
    is_web_url,
    make_url_requests,
    passed_url_requests,
)
from app.steps.truncation.measure import TokenMeasure
from app.steps.truncation.truncate import input_limit
from app.upstream.api import Api, ApiName, find_api, is_deterministic
from app.upstream.base_urls import BaseUrlCheck, has_no_such_path
from app.upstream.body_rights import BodyCheck, make_body_check
from app.upstream.catalog import MAX_AGE_AFTER_REFUSAL_SECONDS, MAX_SHOWN_NAME, Catalog, join_names, suggest_model
from app.upstream.causes import WRONG_BASE_URL
from app.upstream.http.client import UpstreamClient
from app.upstream.own_body import find_other_fields

_P = ParamSpec("_P")
_T = TypeVar("_T")

_encode_json = msgspec.json.Encoder().encode
NO_MEDIA: Mapping[MediaRequest, Attachment] = {}


def count_tokens(route: ModelRoute, request: ChatRequest, get_counter: Callable[[str | None], TokenCounter]) -> int:
    """Do what `Gateway.count_tokens` says, with the counter for a tokenizer file, or for none."""
    profile = route.deployments[0].profile
    request, _ = pipeline.repair_request(request, profile)
    counter = get_counter(profile.tokenizer)
    if isinstance(counter, EstimatingCounter):
        return estimate_prompt_tokens(request)
    measure = TokenMeasure(counter, profile.media_tokens)
    return sum(map(measure.count_message, request.messages)) + sum(map(measure.count_tool, request.tools))


class ReplyOptions(Struct, frozen=True):
    """The caller's options for a reply that do not change its content."""

    reply_id: str
    cache_policy: CachePolicy
    scope: str
    """Replies are shared only among requests with the same scope."""
    unread_seconds: float
    """How long the call goes on after its last client has disconnected: 0, or up to infinity, which is its end."""
    attempts: AttemptLog
    """The requests to model servers are added to it."""
    lease: Lease
    """The memory of the request; it moves to the call that is made for it."""
    find_sharer: Callable[[], str]
    """Returns who shares the document workers with others."""

    def copy_for_turn(self, number: int, lease: Lease) -> "ReplyOptions":
        """Return the options of one call to the model in a reply of several, which ends with that reply."""
        id_ = f"{self.reply_id}-{number}" if number else self.reply_id
        return replace(self, reply_id=id_, unread_seconds=0.0, lease=lease)


class Gateway:
    def __init__(
        self,
        find_route: Callable[[str], ModelRoute | None],
        default_model: str | None,
        client: UpstreamClient,
        counter: Callable[[str | None], TokenCounter],
        loader: AttachmentLoader,
        cache: Cache,
        base_urls: BaseUrlCheck,
        *,
        known: Sequence[str],
        read_id: Callable[[str], str] = str,
        catalog: Catalog | None,
        ticker: Ticker,
        upstreams: UpstreamStates,
        budget: RetryBudget,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """`known` are the names of the configured models. `read_id` returns the name that an id of an agent's list
        stands for. `catalog` lists the models of the pass-through's upstream;
        None if there is no pass-through."""
        self._find_route = find_route
        self._default_model = default_model
        # No method of the gateway: then each would hold the other, and what a reload replaces would stay in memory
        # until the garbage collector looks for it, which is rarely.
        self._explain = partial(_explain_failure, base_urls, catalog)
        self._caller = UpstreamCaller(
            client, upstreams, ticker, self._explain, budget=budget, retry_seconds=retry_seconds
        )
        self._client = client
        self._counter = counter
        self._loader = loader
        self._cache = cache
        self._known = known
        self.read_id = read_id
        self._catalog = catalog
        self._base_urls = base_urls
        self._not_counting: set[tuple[str, str]] = set()
        """The name and the address of each upstream that has no path to count tokens."""
        self._not_compacting: set[tuple[str, str]] = set()
        """The same for compactions."""

    async def resolve_model(self, named: str | None) -> str:
        """Return the model of a request: the one that it names, else the default, else the only model.

        Raises BadRequest if there is not exactly one model, and UpstreamFailed if the server's list cannot be fetched.
        """
        name = named or self._default_model
        if name:
            return name
        names = list(dict.fromkeys((*self._known, *await self._list_passthrough_models())))
        if len(names) == 1:
            return names[0]
        raise BadRequest(f"`model` is required. {_describe_models(names)}", "model")

    async def _list_passthrough_models(self) -> Sequence[str]:
        """Return the models of the pass-through's server; none if it answers but has no list."""
        if self._catalog is None:
            return ()
        try:
            return await self._catalog.names()
        except UpstreamFailed as error:
            failure = error
        fault = await self._base_urls.explain(failure.fault, self._catalog.target)
        if fault.cause != WRONG_BASE_URL.word and _has_no_model_list(fault):
            return ()
        raise UpstreamFailed(fault) from failure

    def route(self, model: str) -> ModelRoute:
        """Return the route of a model. Raises UnknownModel."""
        route = self._find_route(model)
        if route is None:
            hint = suggest_model(model, self._known)
            raise UnknownModel(f"there is no model {_shorten_name(model)!r}{hint} (GET /v1/models lists them)", "model")
        return route

    def find_name(self, model: str) -> str:
        """Return the configured name of a model, which may be named by an alias."""
        route = self._find_route(model)
        return model if route is None else route.model

    def find_media_requests(self, route: ModelRoute, request: ChatRequest) -> list[MediaRequest]:
        """Return the media that must be loaded before this request can be prepared. Raises InvalidInput."""
        own = request.passed or request.source
        checks: dict[MediaRequest, MediaRequest] = {}
        for deployment in route.deployments if own is not None and own.urls else ():
            if own is not None and deployment.takes_body_of(own.api):
                checks |= {one: one for one in passed_url_requests(request, deployment.profile)}
        if request.params.get("extra_body"):
            checks |= {one: one for each in route.deployments for one in extra_url_requests(request, each.profile)}
        if not pipeline.has_media(request):
            return self._loader.check_urls(list(checks.values())) if checks else []
        request = _add_defaults(route, request)
        checked = _keep_successes(
            [(deployment, _result_or_error(_repair, request, deployment)) for deployment in route.deployments]
        )
        profiles = [(deployment.profile, repaired) for deployment, (repaired, _) in checked]
        found: dict[MediaRequest, MediaRequest] = {}
        for media in (one for profile, repaired in profiles for one in pipeline.media_requests(repaired, profile)):
            found.setdefault(media, media)
        return self._loader.check_urls([*found.values(), *(one for one in checks if one not in found)])

    async def load_media(
        self,
        route: ModelRoute,
        request: Admitted,
        wanted: list[MediaRequest],
        take_memory: Callable[[int], None],
        caller: str,
    ) -> Mapping[MediaRequest, Attachment]:
        """Load the media of a request. `take_memory` is called with the size of what was fetched, and may raise Busy.
        Raises ParleyError for media that are refused or cannot be loaded."""
        if not wanted:
            return NO_MEDIA
        passages, search = _choose_search(route, request), None
        if passages is not None:
            embed = partial(self._client.embeddings, route.deployments[0].target)
            search = FileSearch(passages, find_question(request), embed)
        admit = None if request.guard is None else request.guard.admit_files
        return await self._loader.load(wanted, take_memory, caller, search, admit)

    async def check_passed_urls(self, route: ModelRoute, urls: Sequence[tuple[str, str]]) -> None:
        """Check the URLs (JSON path, URL) that a server of the model may fetch. Raises InvalidInput for those that are
        refused, MediaUnavailable if a host is not found."""
        wanted = [one for each in route.deployments for one in make_url_requests(urls, each.profile)]
        await self._loader.load(self._loader.check_urls(wanted))

    async def check_addresses(self, url: str) -> None:
        """Check that a URL which a model names leads to a public address. Raises MediaRefused, and MediaUnavailable if
        its host is not found."""
        await self._loader.check_addresses(url)

    def count_tokens(self, route: ModelRoute, request: ChatRequest) -> int:
        """Return how many input tokens the request has for the first deployment: counted without its chat template if
        there is a tokenizer, else the estimate that is used everywhere. Raises InvalidInput for stop words."""
        return count_tokens(route, request, self._counter)

    async def ask_token_count(
        self, route: ModelRoute, request: Admitted, take_memory: Callable[[int], None], caller: str
    ) -> dict[str, Any] | None:
        """Return the answer of the first deployment's server to how many input tokens the request has. None if the
        server does not count, which is remembered, or if the gateway truncates the request before it is sent.

        Raises ParleyError as a request for a reply does."""
        deployment = route.deployments[0]
        target, api = deployment.target, find_api(deployment.target.api)
        server = (target.name, target.base_url)
        if (
            (api.count_path is None and api.make_count is None)
            or server in self._not_counting
            or input_limit(request.params, deployment.profile) is not None
        ):
            return None
        prepared = await self._prepare_question(replace(route, deployments=(deployment,)), request, take_memory, caller)
        list_headers = None if prepared.is_own(0) else api.list_headers
        headers = prepared.headers if list_headers is None else list_headers(deployment.profile)
        made = api.make_count_request(deployment.model, prepared.bodies[0])
        assert made is not None
        path, body = made
        try:
            return await self._client.count_tokens(target, path, body, headers)
        except UpstreamFailed as failure:
            if has_no_such_path(failure.fault):
                self._not_counting.add(server)
                return None
            raise await self._explain(failure, deployment) from failure

    async def ask_compaction(
        self, route: ModelRoute, request: Admitted, take_memory: Callable[[int], None], caller: str
    ) -> dict[str, Any] | None:
        """Return the compaction that the first deployment's server makes of the caller's own body. None if the server
        makes none, which is remembered, or is not sent that body. Raises ParleyError as a request for a reply does."""
        deployment = route.deployments[0]
        target, api = deployment.target, find_api(deployment.target.api)
        path, server = api.compact_path, (deployment.target.name, deployment.target.base_url)
        if path is None or request.passed is None or server in self._not_compacting:
            return None
        if not deployment.takes_body_of(request.passed.api):
            return None
        prepared = await self._prepare_question(replace(route, deployments=(deployment,)), request, take_memory, caller)
        if not prepared.is_own(0):
            return None
        fields = msgspec.json.decode(prepared.bodies[0], type=dict[str, msgspec.Raw])
        body = msgspec.json.encode({name: value for name, value in fields.items() if name in api.compacted})
        try:
            return await self._client.compact(target, path, body, prepared.headers)
        except UpstreamFailed as failure:
            if has_no_such_path(failure.fault):
                self._not_compacting.add(server)
                return None
            raise await self._explain(failure, deployment) from failure

    async def _prepare_question(
        self, only: ModelRoute, request: Admitted, take_memory: Callable[[int], None], caller: str
    ) -> PreparedRequest:
        """Build the body for the only deployment of a route, with its media."""
        request = with_own_urls(request)
        wanted = await asyncio.to_thread(self.find_media_requests, only, request)
        media = await self.load_media(only, request, wanted, take_memory, caller)
        return await asyncio.to_thread(self.prepare, only, request, media)

    def prepare(
        self, route: ModelRoute, request: Admitted, media: Mapping[MediaRequest, Attachment] = NO_MEDIA
    ) -> PreparedRequest:
        """Build the body for each deployment that can serve the request.

        If none can, raises the first deployment's error: InvalidInput, or ContextTooLong if the messages are too long.
        If the model has fallbacks for messages that are too long, the result has that error and no body instead.
        """
        if request.server_tools is not None:
            refuse_servers(request.server_tools.asks)
        original = request if route.has_fallbacks else None
        if request.guard is not None and media:
            request = request.guard.mask_quotes(request)
        check = make_body_check(request, route.model, has_price=route.price is not None)
        if route.defaults or route.passages is not None or None in request.params.values():
            request = _add_defaults(route, request)
        params = request.params
        error: ParleyError | None = None
        try:
            bodies = self._build_all(route, request, media, check)
        except ContextTooLong as too_long:
            if not route.fallbacks_on_context_length:
                raise
            bodies, error = [], too_long
        warnings = bodies[0][1].warnings if len(bodies) == 1 else ()
        if len(bodies) > 1:
            warnings = tuple(dict.fromkeys([text for _, body in bodies for text in body.warnings]))
        retries, own = params.get("max_retries"), request.passed or request.source
        return PreparedRequest(
            route
            if len(bodies) == len(route.deployments)
            else replace(route, deployments=tuple(deployment for deployment, _ in bodies)),
            replace(request, messages=(), source=None, passed=None, refusal=None),
            tuple([body.data for _, body in bodies]),
            warnings,
            route.max_retries if retries is None else retries,
            params.get("request_timeout"),
            False not in [body.deterministic for _, body in bodies],
            estimate_prompt_tokens(request, media.values()),
            bodies[0][1].prefix if bodies else b"",
            original,
            error,
            passed=() if own is None else tuple([body.passed for _, body in bodies]),
            own=() if own is None else tuple([body.is_own for _, body in bodies]),
            headers=() if own is None else own.headers,
            beginnings=() if request.known is None else tuple([body.beginning for _, body in bodies]),
        )

    def _build_all(
        self,
        route: ModelRoute,
        request: ChatRequest,
        media: Mapping[MediaRequest, Attachment],
        check: BodyCheck | None,
    ) -> "list[tuple[Deployment, _BuiltBody]]":
        """Return the deployments that can serve the request, each with its body. Those with the same name of the model,
        the same profile and the same API share one. A deployment that must be sent old media as words is used only if
        all are such. Raises the first error if there are none."""
        deployments, hash_prefix = route.deployments, route.strategy in ("prefix", "session")
        if len(deployments) == 1:
            return [(deployments[0], self._build(request, deployments[0], media, check))]
        if pipeline.has_media(request):
            deployments = _prefer_accepting(request, deployments)
        built: dict[tuple[str, int, str], _BuiltBody | ParleyError] = {}
        for deployment in deployments:
            key = _make_body_key(deployment)
            if key not in built:
                built[key] = _result_or_error(self._build, request, deployment, media, check, hash_prefix=hash_prefix)
        return _keep_successes([(deployment, built[_make_body_key(deployment)]) for deployment in deployments])

    async def find(self, prepared: PreparedRequest, options: ReplyOptions) -> Found:
        """Return a stored reply, a call in progress or a new call. Raises CacheMiss."""
        request = self._make_cache_request(prepared, options)
        if request.policy.only and not request.policy.read:
            raise CacheMiss("no reply is cached")
        return await self._cache.find(request, partial(self._open_with_lease, prepared, options))

    def find_again(self, prepared: PreparedRequest, options: ReplyOptions) -> Found:
        """Return another call after that of an identical request failed."""
        request = self._make_cache_request(prepared, options)
        return self._cache.join_or_start(request, partial(self._open_with_lease, prepared, options))

    def _make_cache_request(self, prepared: PreparedRequest, options: ReplyOptions) -> CacheRequest:
        policy = options.cache_policy
        if prepared.error is not None:
            policy = policy.without_cache()  # no body: there is nothing of which a key can be made
        if policy.only_deterministic and not prepared.deterministic:
            policy = policy.without_cache()
        return CacheRequest(
            key=prepared.key(options.scope) if policy.read or policy.write else "",
            model=prepared.route.model,
            policy=policy,
            ttl_seconds=policy.ttl_seconds or prepared.route.cache_seconds or 0.0,
            unread_seconds=options.unread_seconds,
        )

    async def _open_with_lease(self, prepared: PreparedRequest, options: ReplyOptions) -> Reply:
        """Open the call with the memory lease of the request, because the call may outlive the request."""
        with options.lease.move() as lease:
            if prepared.size > UNCOUNTED_BYTES:
                lease.change(prepared.size)
            return await self.open(prepared, options.reply_id, options.attempts, lease, options.find_sharer)

    def _build(
        self,
        request: ChatRequest,
        deployment: Deployment,
        media: Mapping[MediaRequest, Attachment],
        check: BodyCheck | None = None,
        *,
        hash_prefix: bool = False,
    ) -> "_BuiltBody":
        if request.source is not None:
            request = _select_source(request, deployment)
        if request.source is not None:
            return self._build_own(request, deployment, media, check, hash_prefix=hash_prefix)
        profile, passed = deployment.profile, request.passed
        if passed is not None and deployment.takes_body_of(passed.api) and pipeline.passes_unread(request, profile):
            return self._build_passed(request, deployment, check, hash_prefix=hash_prefix)
        if isinstance(request.refusal, ParleyError):
            raise request.refusal
        api, counter = find_api(deployment.target.api), self._counter(profile.tokenizer)
        rest = request
        if request.known is not None and api.write_beginning is not None:
            rest = divide(request, profile, counter, api.write_beginning)
        prepared, warnings = pipeline.prepare_request(rest, profile, counter, media)
        body, option_warnings = api.build(prepared, deployment.model, profile)
        if check is not None:
            check.check(body, api, profile.allowed_fields)
        return _BuiltBody(
            _encode_json(body),
            tuple(dict.fromkeys((*warnings, *option_warnings))) if warnings or option_warnings else (),
            bool(prepared.params) and is_deterministic(body, profile, api),
            (request.session or _hash_prefix(body, api, rest.before)) if hash_prefix else b"",
            beginning=b"" if rest.before is None else rest.before.written,
        )

    def _build_own(
        self,
        request: ChatRequest,
        deployment: Deployment,
        media: Mapping[MediaRequest, Attachment],
        check: BodyCheck | None,
        *,
        hash_prefix: bool,
    ) -> "_BuiltBody":
        """Build the body for a server of the client's own API: what nothing changed is sent as it came."""
        profile, api = deployment.profile, find_api(deployment.target.api)
        assert api.build_own is not None and request.source is not None
        given, counter = request.source.body, self._counter(profile.tokenizer)
        request = _mark_unsent(request, profile, media)
        rest = request
        if request.known is not None and api.write_own_beginning is not None:
            rest = divide(request, profile, counter, api.write_own_beginning)
        prepared, warnings = pipeline.prepare_request(rest, profile, counter, media)
        body, option_warnings = api.build_own(prepared, deployment.model, profile)
        if profile.extra_fields is not None:
            violations = find_other_fields(body, given, api.fields.union(profile.extra_fields))
            if violations:
                raise InvalidInput(violations)
        if check is not None:
            check.check(body, api, profile.allowed_fields)
        return _BuiltBody(
            _encode_json(body),
            tuple(dict.fromkeys((*warnings, *option_warnings))),
            is_deterministic(body, profile, api),
            (request.session or _hash_prefix(body, api, rest.before)) if hash_prefix else b"",
            beginning=b"" if rest.before is None else rest.before.written,
            passed=pipeline.passes_reply(request, profile),
            is_own=True,
        )

    def _build_passed(
        self, request: ChatRequest, deployment: Deployment, check: BodyCheck | None, *, hash_prefix: bool
    ) -> "_BuiltBody":
        """Build the client's own body for a server of the same API."""
        api = find_api(deployment.target.api)
        assert api.build_passed is not None and request.passed is not None
        body, warnings = api.build_passed(request, deployment.model, deployment.profile)
        if check is not None:
            check.check(body, api, deployment.profile.allowed_fields)
        return _BuiltBody(
            _encode_json(body),
            tuple(warnings),
            is_deterministic(body, deployment.profile, api),
            (request.session or _hash_prefix(body, api)) if hash_prefix else b"",
            passed=True,
            is_own=True,
        )

    async def open(
        self,
        prepared: PreparedRequest,
        reply_id: str,
        attempts: AttemptLog,
        lease: Lease | None = None,
        find_sharer: Callable[[], str] = str,
    ) -> Reply:
        """Send the request and return the reply once it has begun: `app.routing.attempts`. Raises ParleyError.

        Memory for the media of a fallback model is taken from the lease.
        """
        original, guard = prepared.original, prepared.request.guard
        prepare_fallback: PrepareFallback | None = None
        if original is not None:
            take = _take_nothing if lease is None else lease.take
            prepare_fallback = partial(
                self._prepare_fallback, request=original, take_memory=take, find_sharer=find_sharer
            )
        if guard is None:
            return await self._caller.open(prepared, reply_id, attempts, prepare_fallback)
        try:
            return guard.watch(await self._caller.open(prepared, reply_id, attempts, prepare_fallback))
        except UpstreamFailed as failure:
            raise UpstreamFailed(guard.clean_fault(failure.fault)) from failure

    async def open_passing(
        self, prepared: PreparedRequest, attempts: AttemptLog, prepare_fallback: PrepareFallback
    ) -> Reply:
        """Send a request that is no conversation, and return its answer once it has begun. Raises ParleyError."""
        return await self._caller.open(prepared, "", attempts, prepare_fallback)

    async def _prepare_fallback(
        self, model: str, request: Admitted, take_memory: Callable[[int], None], find_sharer: Callable[[], str]
    ) -> PreparedRequest:
        """Prepare the caller's request for another model, with the media that this one needs. Raises ParleyError."""
        route = self.route(model)
        wanted = self.find_media_requests(route, request)
        media = await self.load_media(route, request, wanted, take_memory, find_sharer())
        return await asyncio.to_thread(self.prepare, route, request, media)


class _BuiltBody(Struct, frozen=True):
    data: bytes
    warnings: tuple[str, ...]
    deterministic: bool
    prefix: bytes
    beginning: bytes = b""
    """The messages at its beginning that are remembered."""
    passed: bool = False
    """The client gets the server's own events."""
    is_own: bool = False
    """It is from the client's own body."""


def _select_source(request: ChatRequest, deployment: Deployment) -> ChatRequest:
    """Return the request with its source only if the deployment's server is sent what nothing changed of it."""
    source = request.source
    if source is None or deployment.takes_source(source):
        return request
    refuse_foreign(source)
    return replace(request, source=None)


def refuse_foreign(source: Source | None) -> None:
    """Raise InvalidInput for what is for a provider's own servers, of which the gateway translates nothing."""
    if source is not None and source.violations:
        raise InvalidInput(source.violations)


def _repair(request: ChatRequest, deployment: Deployment) -> tuple[ChatRequest, list[str]]:
    return pipeline.repair_request(_select_source(request, deployment), deployment.profile)


def _mark_unsent(request: ChatRequest, profile: Profile, media: Mapping[MediaRequest, Attachment]) -> ChatRequest:
    """Return the request with the numbers of the entries whose URLs its server must not fetch, or cannot."""
    source = request.source
    assert source is not None
    if not source.urls:
        return request
    refused = {one.path for one in passed_url_requests(request, profile) if isinstance(media.get(one), Unreadable)}
    refused |= {path for path, url in source.urls if not is_web_url(url)}
    numbers = frozenset(map(source.find_number, refused))
    return replace(request, source=replace(source, unsent=numbers)) if numbers else request


_Request = TypeVar("_Request", bound=ChatRequest)


def with_own_urls(request: _Request, headers: tuple[tuple[bytes, bytes], ...] = ()) -> _Request:
    """Return the request with the URLs and the headers that its server gets with the client's own body."""
    if request.source is not None:
        source = request.source
        urls = find_body_urls(source.whole_body, request.known, find_api(cast(ApiName, source.api)).own_fields)
        return replace(request, source=replace(source, urls=urls, headers=headers or source.headers))
    if request.passed is not None:
        passed = request.passed
        urls = find_body_urls(passed.body, request.known, find_api(cast(ApiName, passed.api)).own_fields)
        return replace(request, passed=replace(passed, urls=urls, headers=headers or passed.headers))
    return request


def _result_or_error(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "_T | ParleyError":
    """Return the result or the error. What the caller may not do is refused for all servers alike: raises Forbidden."""
    try:
        return function(*args, **kwargs)
    except Forbidden:
        raise
    except ParleyError as error:
        return error


def _keep_successes(outcomes: "Sequence[tuple[Deployment, _T | ParleyError]]") -> "list[tuple[Deployment, _T]]":
    """Return the outcomes that are not errors. Raises the first error if there are none."""
    successes = [(deployment, outcome) for deployment, outcome in outcomes if not isinstance(outcome, ParleyError)]
    errors = [outcome for _, outcome in outcomes if isinstance(outcome, ParleyError)]
    if not successes:
        raise errors[0]
    return successes


def _prefer_accepting(request: ChatRequest, deployments: tuple[Deployment, ...]) -> tuple[Deployment, ...]:
    accepting = tuple([item for item in deployments if pipeline.accepts_uploads(request, item.profile)])
    return accepting or deployments


def _make_body_key(deployment: Deployment) -> tuple[str, int, str]:
    """Return what deployments have in common that are sent the same body."""
    return deployment.model, id(deployment.profile), deployment.target.api


def _hash_prefix(body: Mapping[str, Any], api: Api, before: Beginning | None = None) -> bytes:
    """Hash what a server's prefix cache sees first: the model, and the messages up to the first of the user."""
    given = body[api.conversation] if before is None else before.head
    # A text in a client's own body is one message of the user.
    messages: Sequence[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if messages and isinstance(messages[0], msgspec.Raw):
        messages = [*msgspec.json.decode(b"[%b]" % bytes(messages[0])), *messages[1:]]
    end = next((index for index, message in enumerate(messages) if message.get("role") == "user"), len(messages))
    seen: list[Any] = [body.get("model"), messages[: end + 1]]
    if api.system is not None:
        seen.append(body.get(api.system))
    return hashlib.blake2b(msgspec.json.encode(seen), digest_size=16).digest()


async def _explain_failure(
    base_urls: BaseUrlCheck, catalog: Catalog | None, error: UpstreamFailed, deployment: Deployment
) -> UpstreamFailed:
    """Return the error with advice: the right base_url, or the model that was probably meant."""
    fault = await base_urls.explain(error.fault, deployment.target)
    explained = UpstreamFailed(fault)
    if catalog is not None and deployment.target.name == catalog.target.name:
        if explained.is_server_fault:
            catalog.expire()
        elif fault.code == "not_found":
            message = fault.message + await _suggest_listed_model(catalog, deployment.model)
            return UpstreamFailed(msgspec.structs.replace(fault, message=message))
    return explained


async def _suggest_listed_model(catalog: Catalog, model: str) -> str:
    """Return the end of a message that suggests a similar model of the pass-through's server."""
    try:
        return suggest_model(model, await catalog.names(MAX_AGE_AFTER_REFUSAL_SECONDS))
    except UpstreamFailed:
        return ""


def refuse_servers(asks: Sequence[ServerAsk]) -> None:
    """Raise InvalidInput for servers of tools, which are not offered at this point."""
    text = "there is no server of tools {!r}: none is configured at this gateway"
    if asks:
        raise InvalidInput([Violation(ask.path, text.format(ask.server)) for ask in asks])


def _add_defaults(route: ModelRoute, request: _Request) -> _Request:
    """Return the request with what it does not say itself. A parameter that it gives as None has no default."""
    params = merge_params(route.defaults, request.params)
    return replace(request, params=params, passages=_choose_search(route, request))


def _choose_search(route: ModelRoute, request: ChatRequest) -> PassageSearch | None:
    return request.passages or route.passages


def _take_nothing(size: int) -> None: ...


def _has_no_model_list(fault: Fault) -> bool:
    """Whether the server answers, but has no list of its models."""
    return fault.status in (404, 405, 501) or (fault.status == 200 and fault.code == "upstream_protocol")


def _describe_models(names: Sequence[str]) -> str:
    available = f"Available models: {join_names(names)}. " if names else "The model server lists none. "
    return f"{available}(Set default_model in parley.toml to make it optional.)"


def _shorten_name(name: str) -> str:
    return name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…"


def new_reply_id() -> str:
    return f"chat-{os.urandom(16).hex()}"
