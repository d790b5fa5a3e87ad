"""Which model a caller may use, and for what."""

from msgspec.structs import replace

from app.access import Caller
from app.chat.messages import ChatRequest
from app.endpoints.kinds import CHAT, ModelEndpoint, describe_served
from app.errors import UnknownModel, WrongEndpoint
from app.gateway import Gateway
from app.routing import ModelRoute


def find_route(gateway: Gateway, model: str, caller: Caller, endpoint: ModelEndpoint | None = CHAT) -> ModelRoute:
    """Return the route of a model for an endpoint; None is one that all models serve. Raises Forbidden for a model that
    the caller may not use, whether or not it exists, UnknownModel, and WrongEndpoint."""
    if caller.endpoints is not None:
        caller.check_endpoint(endpoint)
    route = gateway.route(model) if caller.models is None else _find_allowed(gateway, model, caller)
    if endpoint not in route.endpoints:
        check_endpoint(route, endpoint)
    return route


def check_endpoint(route: ModelRoute, endpoint: ModelEndpoint | None) -> None:
    """Raises WrongEndpoint if the model does not serve it."""
    if endpoint is not None and endpoint not in route.endpoints:
        raise WrongEndpoint(
            f"the model {route.model!r} serves {describe_served(route.endpoints)}, not {endpoint}", "model"
        )


def _find_allowed(gateway: Gateway, model: str, caller: Caller) -> ModelRoute:
    """Return the route of a model for a caller who may not use all models."""
    try:
        route = gateway.route(model)
    except UnknownModel:
        caller.check_model(model)
        raise
    caller.check_model(gateway.read_id(model), route.model)
    if caller.own_fallbacks and route.has_fallbacks:
        return route.with_fallbacks(lambda name: caller.may_use(name, gateway.find_name(name)))
    return route


def apply_rights(request: ChatRequest, caller: Caller) -> ChatRequest:
    """Return a request with what its caller may choose at a model server. Raises Forbidden for a model with which the
    caller may not have files searched."""
    rights = caller.rights
    if rights is None:
        return request
    if request.passages is not None and request.passages.embedding_model is not None:
        caller.check_embedding_model(request.passages.embedding_model)
    return replace(request, rights=rights)
