"""What is done to a request before a model sees it, and undone on its reply: pure, one idea a file.

`prepare` and `reply_stages` are the two ordered lists; everything else is named after what it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.chat.attachments import Attachment
from app.chat.messages import ChatRequest, Tool
from app.chat.stage import Stage
from app.chat.token_counter import TokenCounter
from app.errors import InvalidInput
from app.openai_messages.grouping import group_messages
from app.profiles import Profile
from app.steps.alternate import alternate_roles
from app.steps.cache_marks import strip_cache_marks
from app.steps.continuation import fold_continuation
from app.steps.demanded_calls import DemandedCallStage, find_demanded_function
from app.steps.empty_turns import drop_empty_turns
from app.steps.media import MediaRequest, find_passed_urls, media_requests, rewrite_media
from app.steps.opaque_fields import warn_of_unsent_fields
from app.steps.prompt_language import choose_gateway_language, detect_language
from app.steps.prompted_tools import (
    add_tool_prompt,
    prompt_stop_words,
    prompted_tool_stage,
    prompted_tool_traits,
    uses_prompted_tools,
    writes_calls_as_text,
)
from app.steps.reasoning_parser import ReasoningStage
from app.steps.repair import RepairStage
from app.steps.stop_words import StopWordStage, stop_violations, stop_words
from app.steps.system import add_default_system, place_system
from app.steps.tool_parsers import tool_parser_stage
from app.steps.truncation.truncate import input_limit, truncate

__all__ = ["check_request", "find_passed_urls", "prepare_request", "reply_stages", "reply_traits", "media_requests"]


def check_request(request: ChatRequest, profile: Profile) -> list[str]:
    """What the caller must know of its calls and results. Raises InvalidInput.

    A conversation must be sound before anything is fetched for it or cut from it. Where nothing can be called and what
    was called is told in words, a missing call or result harms nobody: it is only named.
    """
    wrong = stop_violations(request.params, profile)
    _, violations = group_messages(request.messages)
    if violations and not writes_calls_as_text(request, profile):
        wrong += violations
    if wrong:
        raise InvalidInput(wrong)
    return [f"{one.path}: {one.message}" for one in violations]


def prepare_request(
    request: ChatRequest, profile: Profile, counter: TokenCounter, media: Mapping[MediaRequest, Attachment]
) -> tuple[ChatRequest, list[str]]:
    """(the request that the model will see, what the caller must know). Raises InvalidInput, ContextTooLong.

    `media` is what became of everything that `wanted` named.
    """
    warnings = check_request(request, profile)
    request, unmarked = _strip_unknown_marks(drop_empty_turns(request), profile)
    warnings += unmarked
    warnings += warn_of_unsent_fields(request, profile, in_words=uses_prompted_tools(request, profile) is not None)
    lang = detect_language(request)  # of what was said, before names and texts of files stand in it
    request, unseen = rewrite_media(request, profile, media, choose_gateway_language(request, lang))
    request = replace(request, params={**request.params, "lang": lang})
    warnings += unseen
    request = add_default_system(request, profile, lang)
    if writes_calls_as_text(request, profile):
        request = replace(request, tools=())  # they are not sent: they do not count
    limit = input_limit(request.params, profile)
    if limit is not None:
        request, said = truncate(request, limit, counter, profile.media_tokens)
        warnings += said
    if uses_prompted_tools(request, profile):
        request, explained = add_tool_prompt(request, profile)
        warnings += explained
    request = alternate_roles(place_system(request, profile), profile)
    if request.params.get("use_raw_api") is not True:
        request, said = fold_continuation(request, profile)
        warnings += said
    return request, warnings


def _strip_unknown_marks(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    if not profile.cache_control:
        return strip_cache_marks(request, "this model's server does not know cache_control")
    if uses_prompted_tools(request, profile):
        return strip_cache_marks(request, "the prompt is rewritten to explain functions in it")
    return request, []


def reply_stages(request: ChatRequest, profile: Profile, reply_id: str) -> list[Stage]:
    """What the reply to this request, as the caller made it, must pass, in order.

    Thinking comes first, so that what stands in a thought stays thought; stop words end what would be read as a call.
    """
    stages: list[Stage | None] = []
    if profile.inline_think != "off":
        stages.append(ReasoningStage(profile.inline_think, profile.think_tags, profile.think_interrupt))
    if words := stop_words(request.params, prompt_stop_words(request, profile)):
        stages.append(StopWordStage(words))
    if uses_prompted_tools(request, profile):
        stages.append(prompted_tool_stage(request, profile, reply_id))
    elif profile.text_tools is not None:
        stages.append(tool_parser_stage(profile.text_tools, _offered_tools(request), reply_id))
    if request.params.get("repair_arguments"):
        stages.append(RepairStage())
    if (name := find_demanded_function(request)) is not None:
        stages.append(DemandedCallStage(name))
    return [stage for stage in stages if stage is not None]


def reply_traits(request: ChatRequest, profile: Profile) -> dict[str, Any]:
    """What `reply_stages` looks at in a request, as JSON. Equal replies to requests of equal traits read alike, where
    the profiles agree in `READS_REPLIES`."""
    traits: dict[str, Any] = {}
    if words := stop_words(request.params, prompt_stop_words(request, profile)):
        traits["stop"] = words
    if uses_prompted_tools(request, profile):
        traits["calls"] = prompted_tool_traits(request, profile)
    elif profile.text_tools is not None:
        traits["tools"] = [tool.schema for tool in _offered_tools(request)]
    if request.params.get("repair_arguments"):
        traits["repair"] = True
    if (name := find_demanded_function(request)) is not None:
        traits["demanded"] = name
    return traits


def _offered_tools(request: ChatRequest) -> Sequence[Tool]:
    said = request.params.get("function_choice") or request.params.get("tool_choice")
    return () if said == "none" else request.tools
