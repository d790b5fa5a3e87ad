"""The order of the steps: `prepare_request` rewrites a request, `reply_stages` lists the stages of its reply.

Each step is a pure function or stage in a module of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.attachments import Attachment
from app.chat.known_conversation import add_up
from app.chat.messages import NOTHING, ChatRequest, Media, Message, TokenCounter, Tool, ToolCall, ToolResult
from app.chat.stage import Stage
from app.chat.template_tokens import THINK_TAGS, WITH_HARMONY
from app.errors import InvalidInput
from app.openai_messages.grouping import find_unmatched_calls
from app.profiles import Profile
from app.profiles.thinking import find_switch
from app.steps.alternate import alternate_roles
from app.steps.cache_marks import strip_cache_marks, warn_of_unsent_fields
from app.steps.call_watch import CallWatch
from app.steps.continuation import drop_last_thought, fold_continuation
from app.steps.demanded_calls import DemandedCallStage, find_demanded_function
from app.steps.function_names import FunctionNameStage, find_renamed, rename_functions
from app.steps.function_schemas import (
    merge_function_alternatives,
    type_function_parameters,
    warn_of_other_parameters,
)
from app.steps.json_format import adapt_response_format
from app.steps.media import MediaRequest, accepts_uploads, is_web_url, media_requests, rewrite_media
from app.steps.merge_messages import drop_empty_turns, drop_thought_only_turns
from app.steps.output_check import find_output_schema, make_output_stage
from app.steps.output_demands import find_demand
from app.steps.passing import PassingStage
from app.steps.prompt_language import Language, choose_gateway_language, detect_language
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
from app.steps.reply_length import ReplyLengthStage, find_unreported_limit
from app.steps.stop_words import StopWordStage, stop_violations, stop_words
from app.steps.system import add_default_system, drop_empty_system, place_system
from app.steps.tool_parsers import tool_parser_stage
from app.steps.truncation.truncate import input_limit, truncate
from app.steps.unasked_reasoning import UnaskedReasoningStage
from app.steps.unmatched_calls import repair_calls

__all__ = [
    "accepts_uploads",
    "carries_logprobs",
    "passed_reply_stages",
    "passes_reply",
    "passes_unread",
    "has_media",
    "prepare_repaired",
    "prepare_request",
    "repair_request",
    "reply_stages",
    "reply_traits",
    "media_requests",
]

_DEFAULT_TAGS = Profile.model_fields["think_tags"].default


def repair_request(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    """Return (the request with calls and results that are pairs, warnings), before media are fetched for it and before
    it is truncated.

    If the prompt has old calls and results as text, nothing is repaired. Of a client's own body, a server that takes
    everything says itself what is wrong.

    Raises:
        InvalidInput: there are too many or too long stop words; with a prompt that explains functions, a choice that
            names an unknown one.
    """
    if not _STOP.isdisjoint(request.params):
        invalid = stop_violations(request.params, profile, request.paths)
        if invalid:
            raise InvalidInput(invalid)
    is_own = request.source is not None and profile.takes == "all"
    has_calls = is_own or not _CALLS.isdisjoint([type(part) for message in request.messages for part in message.parts])
    if (has_calls or not _CHOICES.isdisjoint(request.params)) and writes_calls_as_text(request, profile):
        violations = find_unmatched_calls(request.messages, request.calls_before).violations
        return request, [f"{violation.path}: {violation.message}" for violation in violations]
    return repair_calls(request) if has_calls and not is_own else (request, [])


_STOP = frozenset(("stop", "extra_body"))
"""The parameters that may have stop words."""
_CHOICES = frozenset(("function_choice", "tool_choice"))
"""Those that may name a function which is not offered."""
_CALLS = frozenset((ToolCall, ToolResult))


def passes_unread(request: ChatRequest, profile: Profile) -> bool:
    """Whether a body that the gateway cannot read may be sent to a server of its API as it is."""
    return (
        input_limit(request.params, profile) is None
        and not profile.default_system
        and not (request.passed is not None and any(not is_web_url(url) for _, url in request.passed.urls))
    )


def passes_reply(request: ChatRequest, profile: Profile) -> bool:
    """Whether the client of a server's own API gets the server's own events: none of the stages that the reply needs
    would change them."""
    if uses_prompted_tools(request, profile) is not None or (request.tools and profile.text_family is not None):
        return False
    if profile.check_output == "enforce" and find_demand(request) is not None:
        return False
    source = request.source
    if source is not None and source.has_client_tools and not profile.client_tools:
        return False
    if source is not None and source.api == "responses" and stop_words(request.params):
        return False
    return not find_renamed(request, profile)


def has_media(request: ChatRequest) -> bool:
    """Whether there are media in the conversation, or in the results of tools."""
    if request.known is None:
        return _count_media(request.messages) > 0
    return add_up(_count_media, request.messages, request.known) > 0


def _count_media(messages: Sequence[Message]) -> int:
    count = 0
    for message in messages:
        for part in message.parts:
            if type(part) is ToolResult:
                for one in part.content:
                    if type(one) is Media:
                        count += 1
            elif type(part) is Media:
                count += 1
    return count


def prepare_request(
    request: ChatRequest, profile: Profile, counter: TokenCounter, media: Mapping[MediaRequest, Attachment]
) -> tuple[ChatRequest, list[str]]:
    """Return (the request as the model sees it, warnings).

    `media` has the result of each of `media_requests` that was loaded.

    Raises:
        InvalidInput: see `repair_request`; also a `function_choice` that names an unknown function.
        ContextTooLong: the conversation exceeds the limit even after truncation.
    """
    repaired, warnings = repair_request(request, profile)
    return prepare_repaired(repaired, warnings, profile, counter, media)


def prepare_repaired(
    request: ChatRequest,
    warnings: list[str],
    profile: Profile,
    counter: TokenCounter,
    media: Mapping[MediaRequest, Attachment],
) -> tuple[ChatRequest, list[str]]:
    """Do what `prepare_request` does after `repair_request`, which has returned the request and these warnings."""
    if request.before is not None:
        warnings = [*request.before.warnings, *warnings]
    request, unsent = _drop_empty_messages(request, profile)
    warnings += unsent
    is_prompted = uses_prompted_tools(request, profile) is not None
    request, unmarked = _strip_unknown_marks(request, profile, is_prompted=is_prompted)
    warnings += unmarked
    warnings += warn_of_unsent_fields(request, profile, calls_as_text=is_prompted)
    with_media, formats_reply = has_media(request), request.params.get("response_format") is not None
    lang: Language = "en"
    if is_prompted or with_media or formats_reply or profile.default_system:
        lang = detect_language(request)  # before names and texts of files are added
    if with_media:
        request, unsent_media = rewrite_media(request, profile, media, choose_gateway_language(request, lang))
        warnings += unsent_media
    if request.before is None and profile.default_system:
        request = add_default_system(request, profile, lang)
    if is_prompted and writes_calls_as_text(request, profile):
        request = replace(request, tools=())  # the tools are not sent, so they do not count as tokens
    if formats_reply:
        request, asked = adapt_response_format(request, profile, lang)
        warnings += asked
    limit = input_limit(request.params, profile)
    if limit is not None:
        request, truncated = truncate(request, limit, counter, profile.media_tokens)
        warnings += truncated
    if is_prompted:
        request, prompted = add_tool_prompt(replace(request, params={**request.params, "lang": lang}), profile)
        warnings += prompted
    if request.tools:
        warnings += warn_of_other_parameters(request.tools) if request.source is None else []
        request, merged = merge_function_alternatives(request, profile)
        warnings += merged
        request = type_function_parameters(request, profile)
    request = rename_functions(alternate_roles(place_system(request, profile), profile), profile)
    # A client of the server's own API knows whether its model goes on with a message.
    is_folded = request.source is None or profile.continuation == "refuse"
    if is_folded and request.params.get("use_raw_api") is not True:
        request, folded = fold_continuation(request, profile)
        warnings += folded
    return request, warnings


def _drop_empty_messages(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    roles = [message.role for message in request.messages]
    if "assistant" in roles:
        request = drop_empty_turns(request)
    if "system" in roles:
        request = drop_empty_system(request)
    if "assistant" not in roles:
        return request, []
    request, unsent = drop_last_thought(request)
    request, refused = drop_thought_only_turns(request, profile)
    return request, [*unsent, *refused]


def _strip_unknown_marks(request: ChatRequest, profile: Profile, *, is_prompted: bool) -> tuple[ChatRequest, list[str]]:
    if not profile.cache_control:
        stripped, warnings = strip_cache_marks(request, "this model's server does not know cache_control")
        return stripped, [] if request.policy.optional_marks else warnings
    if is_prompted:
        return strip_cache_marks(request, "the prompt is rewritten to explain functions in it")
    return request, []


def reply_stages(
    request: ChatRequest,
    profile: Profile,
    reply_id: str,
    report: Callable[[str], None] | None = None,
    renamed: Mapping[str, str] = NOTHING,
) -> list[Stage]:
    """Return the stages for the reply to this request, as the caller made it, in order. `report` is called with the
    family of calls in text that was found without a setting. `renamed` are the functions that this attempt gave other
    names because the server refused theirs.

    Names of functions come first, so that every other stage sees those that the caller knows. Reasoning is parsed
    before the rest, so that stop words and calls inside it are not recognised. Stop words come before calls, which they
    can cut off.
    """
    stages: list[Stage | None] = []
    params = request.params
    if _switches_thinking_off(params):
        stages.append(UnaskedReasoningStage())
    if not profile.reports_length and (limit := find_unreported_limit(request, profile)) is not None:
        stages.append(ReplyLengthStage(limit))
    if renamed:
        stages.append(FunctionNameStage(renamed))
    if request.tools and (names := find_renamed(request, profile)):
        stages.append(FunctionNameStage(names))
    prompted = uses_prompted_tools(request, profile) is not None
    own_words = prompt_stop_words(request, profile) if prompted else ()
    words = stop_words(params, own_words) if own_words or params.get("stop") else ()
    if profile.inline_think != "off":
        stages.append(
            ReasoningStage(
                profile.inline_think,
                profile.think_tags,
                profile.think_interrupt,
                profile.answer_tags,
                _list_think_tags(request, profile),
                max(map(len, words), default=1) - 1,
            )
        )
    if words:
        stages.append(StopWordStage(words))
    if prompted:
        stages.append(prompted_tool_stage(request, profile, reply_id))
    else:
        # Qwen-Agent's raw API leaves text as it is.
        family = profile.text_family if params.get("use_raw_api") is True else profile.text_tools
        stages.append(CallWatch(tool_parser_stage(family, _offered_tools(request), reply_id, report)))
    if params.get("repair_arguments"):
        stages.append(RepairStage())
    if request.tools and (name := find_demanded_function(request)) is not None:
        stages.append(DemandedCallStage(name))
    if profile.check_output != "off" and params.get("response_format") is not None:
        stages.append(make_output_stage(request, profile))
    return [stage for stage in stages if stage is not None]


def _switches_thinking_off(params: Mapping[str, Any]) -> bool:
    switch = find_switch(params.get("extra_body") or {})
    return (find_switch(params) if switch is None else switch) is False


def _list_think_tags(request: ChatRequest, profile: Profile) -> tuple[tuple[str, ...], ...]:
    """Return the tags around reasoning that other models have. gpt-oss's channels are among them where no function is
    offered: elsewhere they are read with the calls."""
    if profile.think_tags != _DEFAULT_TAGS:
        return ()
    return THINK_TAGS if request.tools or profile.text_tools != "auto" else WITH_HARMONY


def passed_reply_stages(
    request: ChatRequest, profile: Profile, reply_id: str, renamed: Mapping[str, str] = NOTHING
) -> list[Stage]:
    """Return the stages for the reply to a client's own body, which has the server's own events while the stages of
    every reply change nothing."""
    stages = reply_stages(request, profile, reply_id, renamed=renamed)
    return [PassingStage(stages)] if stages else []


def carries_logprobs(request: ChatRequest, profile: Profile) -> bool:
    """Whether the reply has the log probabilities that a server sends: its stages then run in a `LogprobsStage`."""
    return bool(request.params.get("logprobs")) and "logprobs" not in profile.lacks


def reply_traits(request: ChatRequest, profile: Profile) -> dict[str, Any]:
    """Return everything in a request that `reply_stages` depends on, as JSON.

    Equal upstream replies to requests with equal traits are parsed equally, if the profiles agree in `READS_REPLIES`.
    """
    traits: dict[str, Any] = {}
    params, prompted = request.params, uses_prompted_tools(request, profile) is not None
    if request.tools and (names := find_renamed(request, profile)):
        traits["names"] = names
    own_words = prompt_stop_words(request, profile) if prompted else ()
    if (own_words or params.get("stop")) and (words := stop_words(params, own_words)):
        traits["stop"] = words
    if prompted:
        traits["calls"] = prompted_tool_traits(request, profile)
    elif profile.text_family is not None:
        traits["tools"] = [tool.schema for tool in _offered_tools(request)]
    elif params.get("use_raw_api") is True:
        traits["raw"] = True
    if params.get("logprobs") and carries_logprobs(request, profile):
        traits["logprobs"] = True
    if params.get("repair_arguments"):
        traits["repair"] = True
    if _switches_thinking_off(params):
        traits["thinks"] = False
    if not profile.reports_length and (limit := find_unreported_limit(request, profile)) is not None:
        traits["limit"] = limit
    if request.tools and (name := find_demanded_function(request)) is not None:
        traits["demanded"] = name
    has_format = profile.check_output != "off" and params.get("response_format") is not None
    if has_format and (schema := find_output_schema(request)) is not None:
        traits["output"] = schema
    return traits


def _offered_tools(request: ChatRequest) -> Sequence[Tool]:
    choice = request.params.get("function_choice") or request.params.get("tool_choice")
    return () if choice == "none" else request.tools
