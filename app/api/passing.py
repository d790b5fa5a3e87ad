"""The endpoints whose requests pass through to a model server: embeddings, rankings, text completions, images, audio.

A request goes the way of a conversation: the caller's rights and limits, then the servers of its model, with retries,
fallbacks and health. Its body is only read where that needs it (`app.endpoints`).
"""

import time
from functools import partial

from msgspec.structs import replace
from typing_extensions import override

from app.access import Caller
from app.api.answer_response import AnswerResponse
from app.api.asgi import Receive
from app.api.context import AppContext
from app.api.endpoint_errors import ENDPOINT_ERRORS
from app.api.guarding import admit_body, begin_passing
from app.api.model_rights import check_endpoint, find_route
from app.api.origins import is_form
from app.api.recorded_endpoint import RecordedEndpoint
from app.api.request_in_progress import RequestInProgress
from app.api.router import AsgiRoute
from app.api.spool import Spool
from app.api.stored_vectors import StoredVectors, find_vectors
from app.api.uploads import Upload, UploadLimits
from app.chat.token_estimate import DEFAULT_REPLY_TOKENS
from app.endpoints.body import EndpointBody, read_fields
from app.endpoints.completions import find_most_tokens
from app.endpoints.kinds import ENDPOINTS, Endpoint
from app.errors import BadRequest, Unsupported
from app.formats.base import ReplyInfo
from app.formats.body import RejectedRequest, find_user, keep_texts
from app.formats.openai import OPENAI
from app.gateway import Gateway, new_reply_id
from app.observe.logs import log_late_failure
from app.routing import ModelRoute, PreparedRequest, PrepareFallback
from app.routing.passing import Form, check_rights, estimate_usage, prepare_passing


class PassingEndpoint(RecordedEndpoint):
    """A plain ASGI callable for one endpoint."""

    _records_bodies = False

    def __init__(self, context: AppContext, endpoint: Endpoint) -> None:
        super().__init__(context, endpoint.recorded_as or endpoint.name)
        self._endpoint = endpoint

    @override
    async def _serve(self, request: RequestInProgress) -> RejectedRequest | None:
        context, scope = self._context, request.scope
        if is_form(scope["path"], scope["state"]["headers"].get(b"content-type")):
            await self._serve_form(request)
            return None
        with request.lease:
            raw = await request.read_body()
            with context.admission.try_enter() or await context.wait_for_place(scope, request.receive):
                body = await self._read_body(raw, request)
                del raw
                prepared, body = await self._accept(request, body)
                vectors = await find_vectors(context, request, prepared, body)
                if vectors is not None and vectors.body is not body:
                    body = vectors.body
                    prepared = self._prepare(request, body, prepared.route)
                prepare_fallback = partial(self._prepare_fallback, request, body, None)
                del body
                await self._deliver(request, prepared, prepare_fallback, vectors)
        return None

    async def _read_body(self, raw: bytes | bytearray, request: RequestInProgress) -> EndpointBody:
        """Return the body that passes. Raises ParleyError."""
        return read_fields(raw)

    def _find_path(self, request: RequestInProgress) -> str:
        """Return the path at the model server."""
        path: str = request.scope["path"]
        return path

    def _create_response(self, request: RequestInProgress, info: ReplyInfo) -> AnswerResponse:
        writer = ENDPOINT_ERRORS[request.scope["path"]]
        return AnswerResponse(request.writer, info, replace(OPENAI, error=writer), self._context.replies.limits)

    async def _serve_form(self, request: RequestInProgress) -> None:
        """Serve a request with files. Raises ParleyError."""
        context, settings = self._context, request.live.settings
        limits = settings.limits
        bounds = UploadLimits(limits.max_upload_bytes, limits.max_upload_parts, settings.server.body_seconds)
        with Spool() as spool, request.lease:
            form = Upload(request.scope, request.receive, request.offered_writer, spool, bounds)
            await form.read_beginning()
            if not form.is_whole and not self._can_send_on(request, form):
                await form.read_rest()
            request.record.received_at = time.perf_counter()
            wait = request.receive if form.is_whole else form.receive_disconnect
            with context.admission.try_enter() or await context.wait_for_place(request.scope, wait):
                prepared, body = await self._accept(request, form.read_fields(), form)
                # A server that refuses a credential is asked again with a new one.
                form.is_sent_once = prepared.has_one_attempt and prepared.route.deployments[0].target.credential is None
                prepare_fallback = partial(self._prepare_fallback, request, body, form)
                await self._deliver(request, prepared, prepare_fallback, receive=wait)

    def _can_send_on(self, request: RequestInProgress, form: Upload) -> bool:
        """Whether a form may be sent on while it comes. It may not where the client's time would count as that of a
        server. Raises ParleyError for a model that the caller cannot have."""
        model, unit = form.read_fields().model, self._endpoint.unknown
        if model is None or (unit is not None and unit[0] == "images" and self._context.limiter is not None):
            return False  # the number of images, which is reserved, may stand behind a file
        route = find_route(request.live.gateway, model, request.caller, self._endpoint.serves)
        names = (model, *route.list_fallbacks())
        routes = [request.live.gateway.route(name) for name in names]
        return all(one.deadline_seconds is None and one.hedge_after is None for one in routes)

    async def _accept(
        self, request: RequestInProgress, body: EndpointBody, form: Upload | None = None
    ) -> tuple[PreparedRequest, EndpointBody]:
        """Return the request as it is sent, and its fields as guards let them pass. Raises ParleyError."""
        gateway, record, endpoint = request.live.gateway, request.record, self._endpoint
        path = self._find_path(request)
        record.stream = body.stream
        if request.caller.users is not None:
            named = {name: body.read(name) for name in ("user", "safety_identifier")}
            request.name_user(find_user(named), body.read("metadata"))
            request.caller.check_user()
        request.read_tags(keep_texts(body.read("metadata")) if "metadata" in body.fields else None)
        body = body.without_tags()
        model = body.model or self._find_only_model(request.live.gateway, request.caller, path)
        record.requested_model = model
        route = find_route(gateway, model, request.caller, endpoint.serves)
        record.model = route.model
        await gateway.check_passed_urls(route, body.find_urls())
        if form is not None:
            form.add_check(partial(self._check_fields, request, route))
        await self._reserve(request, route, body, form)
        if request.live.guards is not None:
            body = await self._admit(request, body, route, form)
        return self._prepare(request, body, route, form), body

    async def _admit(
        self, request: RequestInProgress, body: EndpointBody, route: ModelRoute, form: Form | None
    ) -> EndpointBody:
        """Show a request to the guards of its model. Raises ParleyError, also for one that they cannot look at."""
        guard = begin_passing(self._context, request, route)
        if guard is None:
            return body
        if body.own is not None and body.own.refusal is not None:
            raise body.own.refusal  # there is nothing that guards could look at
        what = "a form with files" if form is not None and guard.chosen.enforces_requests else None
        if self._endpoint.generates and (guard.chosen.replying or guard.chosen.masks):
            what = f"the answer of {self._endpoint.name}"
        if what is not None:
            text = f"guards check the requests for the model {route.model!r}, and cannot look at {what}"
            raise Unsupported(f"{text}: send a conversation, or use a model without guards")
        return await admit_body(request, guard, body)

    def _find_only_model(self, gateway: Gateway, caller: Caller, path: str) -> str:
        """Return the only model that serves this endpoint and that the caller may use. Raises BadRequest."""
        registry, serves = self._context.registry, self._endpoint.serves
        names = [
            route.model
            for route in registry.routes()
            if (serves is None or serves in route.endpoints) and caller.may_use(route.model)
        ]
        if len(names) == 1 and path not in self._endpoint.needs_model:
            return names[0]
        known = f": {', '.join(names)}" if names else ", and none is configured that this caller may use"
        raise BadRequest(f"`model` is required: the name of a model that serves {self._endpoint.name}{known}", "model")

    async def _reserve(
        self, request: RequestInProgress, route: ModelRoute, body: EndpointBody, form: Form | None
    ) -> None:
        """Reserve the limits of the request. Raises RateLimited or QuotaExceeded."""
        limiter, endpoint = self._context.limiter, self._endpoint
        if limiter is None:
            return
        most = find_most_tokens(body, request.live.settings.usage.reserved_reply_tokens) if endpoint.generates else 0
        reservation = await limiter.reserve(
            request.caller,
            route.model,
            body.estimate_tokens if endpoint.serves is not None else lambda: 0,
            (find_most_tokens(body, DEFAULT_REPLY_TOKENS) if endpoint.generates else 0) or None,
            0,
            lambda: most,
            lambda: estimate_usage(endpoint, body, form).most_units,
        )
        if reservation is not None:
            request.record.record_reservation(reservation)
            request.scope["state"]["response_headers"] += reservation.headers

    async def _prepare_fallback(
        self, request: RequestInProgress, body: EndpointBody, form: Upload | None, name: str
    ) -> PreparedRequest:
        """Prepare the request for another model. Raises ParleyError."""
        route = request.live.gateway.route(name)
        check_endpoint(route, self._endpoint.serves)
        if form is not None:
            body = form.read_fields()
            form.add_check(partial(self._check_fields, request, route))
        await request.live.gateway.check_passed_urls(route, body.find_urls())
        return self._prepare(request, body, route, form)

    async def _check_fields(self, request: RequestInProgress, route: ModelRoute, body: EndpointBody) -> None:
        """Look at fields of a form that stand behind a file. Raises ParleyError."""
        await request.live.gateway.check_passed_urls(route, body.find_urls())
        check_rights(body, route, request.caller.rights)

    def _prepare(
        self, request: RequestInProgress, body: EndpointBody, route: ModelRoute, form: Form | None = None
    ) -> PreparedRequest:
        """Raises Forbidden."""
        path = self._find_path(request)
        return prepare_passing(self._endpoint, path, body, route, request.caller.rights, form)

    async def _deliver(
        self,
        request: RequestInProgress,
        prepared: PreparedRequest,
        prepare_fallback: PrepareFallback,
        vectors: StoredVectors | None = None,
        receive: Receive | None = None,
    ) -> None:
        """Send the answer to its end, and record it. `vectors` are those that are known of it. `receive` waits for the
        end of the request, if that has not come."""
        context, record, attempts, gateway = self._context, request.record, request.attempts, request.live.gateway
        info = ReplyInfo(new_reply_id(), request.id, prepared.route.model, 0, warnings=request.tag_warnings)
        response = self._create_response(request, info)
        response.attempts = attempts
        open_rest = partial(gateway.open_passing, prepared, attempts, prepare_fallback)
        opening = open_rest() if vectors is None else vectors.open(open_rest)
        if vectors is not None:
            response.set_origin(vectors.origin)
        try:
            await context.replies.run(response, opening, receive or request.receive, request.lease)
        finally:
            attempts.on_late_failure = partial(log_late_failure, record.request_id, self._name, response.info.model)
            attempts.on_late_usage = partial(context.count_late_usage, record.owner, record.model)
        failure = self._find_failure(attempts.attempts, response.error)
        record.record_response(response, response.info.origin, attempts, failure)
        record.finish_reason = None  # there is none


def list_passing_routes(context: AppContext) -> list[AsgiRoute]:
    routes: list[AsgiRoute] = []
    for endpoint in ENDPOINTS:
        serve = PassingEndpoint(context, endpoint)
        routes += [AsgiRoute(path, serve, "POST") for path in endpoint.paths]
    return routes
