"""The edits of a conversation that a request asks for, where its model's server does not make them."""

from msgspec.structs import replace

from app.api.own_bodies import takes_own
from app.chat.context_edits import AppliedEdit, Compact
from app.chat.messages import ChatRequest
from app.chat.token_estimate import estimate_prompt_tokens
from app.formats.body import ParsedRequest
from app.routing import ModelRoute
from app.steps.context_edits import apply_edits, explain_unapplied


def edit_if_asked(parsed: ParsedRequest, route: ModelRoute) -> tuple[ParsedRequest, Compact | None]:
    """Return the request without what it wants cleared, unless its servers clear it themselves, and the edit for which
    it must be summarized."""
    if edits_itself(parsed.request, route):
        return replace(parsed, options=replace(parsed.options, applied_edits=None)), None
    conversation, applied, compact = edit_context(parsed.request)
    warnings = (*parsed.warnings, *explain_unapplied(parsed.request, applied))
    tokens = estimate_prompt_tokens(conversation) if applied and parsed.options.input_tokens else None
    options = replace(parsed.options, applied_edits=applied)
    if tokens is not None:
        options = replace(options, input_tokens=tokens)
    if compact is not None:
        options = replace(options, passed=False)  # the block of the summary is the gateway's
    return replace(parsed, request=conversation, options=options, warnings=warnings), compact


def edits_itself(conversation: ChatRequest, route: ModelRoute) -> bool:
    """Whether each server of the model knows what to clear of the conversation."""
    return all(one.profile.takes == "all" and takes_own(one, conversation) for one in route.deployments)


def edit_context(conversation: ChatRequest) -> tuple[ChatRequest, tuple[AppliedEdit, ...], Compact | None]:
    """Return the conversation without what it wants cleared, what that is, and the edit for which it must be
    summarized. No server is asked to clear it again."""
    conversation, applied, compact = apply_edits(conversation)
    source = conversation.source
    if source is not None:
        body = {name: value for name, value in source.body.items() if name != "context_management"}
        conversation = replace(conversation, source=replace(source, body=body))
    return replace(conversation, edits=()), applied, compact
