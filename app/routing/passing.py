"""Prepare a request that is no conversation: a body for each server of its model."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from app.chat.messages import CallerRights, ChatRequest
from app.endpoints.answer import AnswerOptions
from app.endpoints.body import EndpointBody
from app.endpoints.completions import count_choices
from app.endpoints.embeddings import wants_base64
from app.endpoints.kinds import Endpoint
from app.endpoints.meter import Estimate
from app.errors import ParleyError, WrongEndpoint
from app.params import UNSENT
from app.routing.route import Deployment, ModelRoute, PassingRequest, PreparedRequest
from app.upstream.api import find_api
from app.upstream.body_rights import BodyCheck
from app.upstream.http.transport import LongBody

_NUMBERS_OF_IMAGES = ("n", "batch_size", "num_images", "num_images_per_prompt", "num_outputs", "samples")
"""What servers call the number of images that they make (OpenAI; SiliconFlow; fal.ai and others)."""
_LEAST_BYTES_PER_SECOND = 1000
"""Of recorded speech: 8 kbit/s, the least of usual codecs."""
_BY_CONVERSATION = ("session", "prefix")
"""Strategies that know a conversation again."""


class Form(Protocol):
    """A request with files."""

    @property
    def content_type(self) -> str: ...

    @property
    def size(self) -> int:
        """In bytes."""

    def make_body(self, model: str) -> LongBody:
        """Return the body for a server that knows the model by this name."""


def prepare_passing(
    endpoint: Endpoint,
    path: str,
    body: EndpointBody,
    route: ModelRoute,
    rights: CallerRights | None,
    form: Form | None = None,
) -> PreparedRequest:
    """Return the request with its bodies: of a form those that it makes, else those of `body`. Raises Forbidden for
    what the caller may not choose at a server, and the reason if no server can be sent the request."""
    route = _select_deployments(endpoint, body, route)
    check_rights(body, route, rights)
    streams = body.stream and endpoint.generates
    asks_usage = streams and not body.names_usage
    deployments = route.deployments if form is None else ()
    own = [_make_own(body, one) for one in deployments]
    bodies = tuple(
        [
            _encode(body, route, one, asks_usage=asks_usage) if made is None else made[1]
            for one, made in zip(deployments, own, strict=True)
        ]
    )
    uploads = () if form is None else tuple([form.make_body(one.model) for one in route.deployments])
    choices = count_choices(body) if endpoint.generates else None
    strategy = "least_busy" if route.strategy in _BY_CONVERSATION else route.strategy
    estimate = estimate_usage(endpoint, body, form)
    return PreparedRequest(
        replace(route, strategy=strategy, fallbacks_on_context_length=(), fallbacks_on_content_filter=()),
        ChatRequest(route.model, (), stream=body.stream),
        bodies,
        (),
        route.max_retries,
        None,
        prompt_tokens=estimate.prompt_tokens,
        passing=PassingRequest(
            endpoint.name,
            path,
            AnswerOptions(route.model, endpoint.needs_json, choices, asks_usage, wants_base64(path, body)),
            estimate,
            uploads,
            None if form is None else form.content_type,
            tuple(["" if made is None else made[0] for made in own]) if any(own) else (),
        ),
    )


def _select_deployments(endpoint: Endpoint, body: EndpointBody, route: ModelRoute) -> ModelRoute:
    """Return the route with only the servers that can be sent the request. Raises the reason if there is none."""
    reasons = [_find_obstacle(endpoint, body, route, one) for one in route.deployments]
    usable = tuple([one for one, reason in zip(route.deployments, reasons, strict=True) if reason is None])
    if not usable and reasons and reasons[0] is not None:
        raise reasons[0]
    return route if len(usable) == len(reasons) else replace(route, deployments=usable)


def _find_obstacle(
    endpoint: Endpoint, body: EndpointBody, route: ModelRoute, deployment: Deployment
) -> ParleyError | None:
    """Return why a server cannot be sent the request; None if it can."""
    if _takes_own(body, deployment):
        return None
    if body.own is not None and body.own.refusal is not None:
        return body.own.refusal
    target = deployment.target
    if endpoint.serves != "embeddings" or find_api(target.api).make_embedding is None or endpoint.name in target.paths:
        return None
    return WrongEndpoint(
        f"the model {route.model!r} is at a server of the API {target.api!r}, which gets requests for embeddings from "
        "clients of that API only, and as they came: use an upstream with another `api`, or set its `paths.embeddings`"
    )


def _takes_own(body: EndpointBody, deployment: Deployment) -> bool:
    return body.own is not None and deployment.takes_body_of(body.own.api)


def _make_own(body: EndpointBody, deployment: Deployment) -> tuple[str, bytes] | None:
    """Return the path and the body for a server of the client's own API; None for another one."""
    make = find_api(deployment.target.api).make_embedding
    if body.own is None or make is None or not _takes_own(body, deployment):
        return None
    path, made = make(deployment.model, body.own.method, body.own.fields)
    return path, msgspec.json.encode(made)


def check_rights(body: EndpointBody, route: ModelRoute, rights: CallerRights | None) -> None:
    """Raises Forbidden for what the caller may not choose at a server."""
    has_price = route.price is not None
    if rights is None and not has_price:
        return
    check = BodyCheck(rights, route.model, has_price, body.list_options(), "", None, None)
    named = {**check.fields, **body.read_media(), **({} if body.own is None else body.own.fields)}
    for one in route.deployments:
        check.check_choices(find_api(one.target.api), one.profile.allowed_fields)
        check.check_account(named, one.profile.allowed_fields)


def _encode(body: EndpointBody, route: ModelRoute, deployment: Deployment, *, asks_usage: bool) -> bytes:
    """Return the body for a server: with the model's `defaults`, and a question for the usage of a stream."""
    defaults = route.defaults
    more: dict[str, Any] = {name: value for name, value in defaults.items() if _is_sent(name, value)}
    more |= defaults.get("extra_body") or {}
    asked: Mapping[str, Any] = {"include_usage": True} if asks_usage and deployment.profile.stream_usage else {}
    return body.encode(deployment.model, more, asked)


def _is_sent(name: str, value: Any) -> bool:
    return name not in UNSENT and name != "extra_body" and value is not None


def estimate_usage(endpoint: Endpoint, body: EndpointBody, form: Form | None) -> Estimate:
    """Return what is known of the usage of a request before its answer."""
    if endpoint.serves is None:
        return Estimate(is_free=True)
    unit = endpoint.unknown
    if unit is not None and unit[0] == "images":
        unit = ("images", body.read_count(*_NUMBERS_OF_IMAGES) or unit[1])
    return Estimate(
        body.estimate_tokens(),
        body.count_characters() if endpoint.speaks else 0,
        unit,
        generates=endpoint.generates,
        most_seconds=0 if form is None else form.size // _LEAST_BYTES_PER_SECOND,
    )
