"""Whether a client's own body is sent on to a server of its API."""

from msgspec.structs import replace

from app.api.asgi import Scope
from app.api.request_in_progress import RequestInProgress
from app.chat.messages import ChatRequest
from app.errors import ParleyError
from app.formats.body import ParsedRequest
from app.gateway import refuse_foreign, with_own_urls
from app.routing import Deployment, ModelRoute
from app.steps.pipeline import passes_reply
from app.upstream.api import find_api
from app.upstream.body_rights import make_body_check

_PASSED_HEADERS = (b"anthropic-beta", b"anthropic-version")
"""Headers that belong to a client's own body."""


def read_passed_headers(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of a request that belong to the client's own body."""
    given = scope["state"]["headers"]
    return tuple([(name, given[name]) for name in _PASSED_HEADERS if name in given])


def choose_own(
    parsed: ParsedRequest, request: RequestInProgress, route: ModelRoute, *, has_tools: bool, translates: bool
) -> tuple[ParsedRequest, bool]:
    """Return the request as it is served, with its source only if a server of the model is sent what nothing changed of
    it, and whether each server of the model is. `translates`: none may be, because guards change what is sent.

    Raises ParleyError if none speaks its API, and the gateway cannot read the body.
    """
    conversation = parsed.request
    own = conversation.source or conversation.passed
    api = None if own is None else own.api
    speaking = [one for one in route.deployments if one.target.api == api and takes_own(one, conversation)]
    if not speaking or translates or (has_tools and conversation.server_tools is not None):
        check_translation(conversation, route)
        return replace(parsed, request=replace(conversation, source=None, passed=None)), False
    conversation = with_own_urls(replace(conversation, server_tools=None), read_passed_headers(request.scope))
    if conversation.source is not None:
        conversation = replace(conversation, source=replace(conversation.source, warnings=parsed.warnings))
    is_whole = len(speaking) == len(route.deployments)
    passes = [conversation.passed is not None or passes_reply(conversation, one.profile) for one in speaking]
    options = replace(parsed.options, passed=any(passes))
    warnings = parsed.repairs if is_whole else parsed.warnings  # most are about what a translation loses
    return replace(parsed, request=conversation, warnings=warnings, options=options), is_whole


def check_translation(conversation: ChatRequest, route: ModelRoute) -> None:
    """Raises ParleyError if a request cannot be translated for servers that do not speak its API."""
    if isinstance(conversation.refusal, ParleyError):
        raise conversation.refusal
    check = make_body_check(conversation, route.model, has_price=route.price is not None)
    if check is not None:
        check.check_choices(find_api(route.deployments[0].target.api))
    refuse_foreign(conversation.source)


def takes_own(deployment: Deployment, conversation: ChatRequest) -> bool:
    passed = conversation.passed
    return deployment.takes_source(conversation.source) or (passed is not None and deployment.takes_body_of(passed.api))
