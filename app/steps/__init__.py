"""What is done to a request before a model sees it, and undone on its reply: pure, one idea a file.

`prepare` and `reply_stages` are the two ordered lists; everything else is named after what it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.chat.attachments import Attachment
from app.chat.counter import Counter
from app.chat.messages import ChatRequest, Tool
from app.chat.stage import Stage
from app.errors import InvalidInput
from app.grouping import groups
from app.profiles import Profile
from app.steps.alternate import alternating
from app.steps.continuation import continued
from app.steps.demanded import DemandStage, demanded
from app.steps.empty import without_empty_turns
from app.steps.fncall import (
    emulated,
    fncall_request,
    fncall_stage,
    fncall_stop_words,
    fncall_traits,
    told_in_words,
)
from app.steps.language import language, own_words
from app.steps.marks import without_marks
from app.steps.media import Wanted, apply, passed_urls, wanted
from app.steps.opaque_fields import warn_of_unsent_fields
from app.steps.repair import RepairStage
from app.steps.stop_words import StopStage, stop_violations, stop_words
from app.steps.system import with_default_system, with_placed_system
from app.steps.text_tools import text_stage
from app.steps.thinking import ThinkStage
from app.steps.truncation import input_limit, truncate

__all__ = ["check", "passed_urls", "prepare", "reply_stages", "reply_traits", "wanted"]


def check(request: ChatRequest, profile: Profile) -> list[str]:
    """What the caller must know of its calls and results. Raises InvalidInput.

    A conversation must be sound before anything is fetched for it or cut from it. Where nothing can be called and what
    was called is told in words, a missing call or result harms nobody: it is only named.
    """
    wrong = stop_violations(request.params, profile)
    _, violations = groups(request.messages)
    if violations and not told_in_words(request, profile):
        wrong += violations
    if wrong:
        raise InvalidInput(wrong)
    return [f"{one.path}: {one.message}" for one in violations]


def prepare(
    request: ChatRequest, profile: Profile, counter: Counter, media: Mapping[Wanted, Attachment]
) -> tuple[ChatRequest, list[str]]:
    """(the request that the model will see, what the caller must know). Raises InvalidInput, ContextTooLong.

    `media` is what became of everything that `wanted` named.
    """
    warnings = check(request, profile)
    request, unmarked = _with_known_marks(without_empty_turns(request), profile)
    warnings += unmarked
    warnings += warn_of_unsent_fields(request, profile, in_words=emulated(request, profile) is not None)
    lang = language(request)  # of what was said, before names and texts of files stand in it
    request, unseen = apply(request, profile, media, own_words(request, lang))
    request = replace(request, params={**request.params, "lang": lang})
    warnings += unseen
    request = with_default_system(request, profile, lang)
    if told_in_words(request, profile):
        request = replace(request, tools=())  # they are not sent: they do not count
    limit = input_limit(request.params, profile)
    if limit is not None:
        request, said = truncate(request, limit, counter, profile.media_tokens)
        warnings += said
    if emulated(request, profile):
        request, explained = fncall_request(request, profile)
        warnings += explained
    request = alternating(with_placed_system(request, profile), profile)
    if request.params.get("use_raw_api") is not True:
        request, said = continued(request, profile)
        warnings += said
    return request, warnings


def _with_known_marks(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    if not profile.cache_control:
        return without_marks(request, "this model's server does not know cache_control")
    if emulated(request, profile):
        return without_marks(request, "the prompt is rewritten to explain functions in it")
    return request, []


def reply_stages(request: ChatRequest, profile: Profile, reply_id: str) -> list[Stage]:
    """What the reply to this request, as the caller made it, must pass, in order.

    Thinking comes first, so that what stands in a thought stays thought; stop words end what would be read as a call.
    """
    stages: list[Stage | None] = []
    if profile.inline_think != "off":
        stages.append(ThinkStage(profile.inline_think, profile.think_tags, profile.think_interrupt))
    if words := stop_words(request.params, fncall_stop_words(request, profile)):
        stages.append(StopStage(words))
    if emulated(request, profile):
        stages.append(fncall_stage(request, profile, reply_id))
    elif profile.text_tools is not None:
        stages.append(text_stage(profile.text_tools, _offered(request), reply_id))
    if request.params.get("repair_arguments"):
        stages.append(RepairStage())
    if (name := demanded(request)) is not None:
        stages.append(DemandStage(name))
    return [stage for stage in stages if stage is not None]


def reply_traits(request: ChatRequest, profile: Profile) -> dict[str, Any]:
    """What `reply_stages` looks at in a request, as JSON. Equal replies to requests of equal traits read alike, where
    the profiles agree in `READS_REPLIES`."""
    traits: dict[str, Any] = {}
    if words := stop_words(request.params, fncall_stop_words(request, profile)):
        traits["stop"] = words
    if emulated(request, profile):
        traits["calls"] = fncall_traits(request, profile)
    elif profile.text_tools is not None:
        traits["tools"] = [tool.schema for tool in _offered(request)]
    if request.params.get("repair_arguments"):
        traits["repair"] = True
    if (name := demanded(request)) is not None:
        traits["demanded"] = name
    return traits


def _offered(request: ChatRequest) -> Sequence[Tool]:
    said = request.params.get("function_choice") or request.params.get("tool_choice")
    return () if said == "none" else request.tools
