"""What the words mean with which servers end a reply."""

import re
from typing import NamedTuple

from app.chat.events import FinishReason
from app.upstream.faults import by_status, by_words, http_status


class Ending(NamedTuple):
    """What a server's finish word means."""

    reason: FinishReason = "stop"
    fault: str | None = None
    """The kind of the fault, if the word says that the reply failed. Then `reason` means nothing."""
    known: bool = True
    """False for a word that is not in the table and says nothing of a failure."""


STOP, _UNKNOWN = Ending(), Ending(known=False)

_WORDS: tuple[tuple[Ending, str], ...] = (
    # Anthropic: end_turn, pause_turn; Cohere: complete; TGI: eos_token; LM Studio: eos_found, stop_string_found; LM
    # Studio and Ollama: end (earendil-works/pi#2142)
    (
        STOP,
        "stop stop_sequence stop_sequences stop_word stop_words stop_string stop_string_found stop_token stopped "
        "end ended end_turn turn_end turn_complete message_stop pause_turn compaction eos eos_token eos_found eog "
        "end_of_text end_of_sequence end_of_stream "
        "complete completed finish finished done normal success ok",
    ),
    # Gemini: max_tokens; Anthropic, Bedrock: model_context_window_exceeded; Mistral: model_length; watsonx:
    # token_limit; LM Studio: max_predicted_tokens_reached, context_length_reached
    (
        Ending("length"),
        "length length_exceeded length_limit length_reached length_capped model_length max_length max_len "
        "max_length_reached max_token max_tokens max_tokens_reached max_tokens_exceeded max_new_tokens "
        "max_output_tokens max_completion_tokens max_predicted_tokens_reached token_limit tokens_limit "
        "token_limit_reached limit limit_reached output_limit context_length context_length_reached "
        "context_length_exceeded context_limit context_window context_window_exceeded "
        "model_context_window_exceeded truncated incomplete",
    ),
    (
        Ending("tool_calls"),
        "tool_calls tool_call tool_use function_call function_calls",
    ),
    # Gemini: safety to image_recitation; Zhipu: sensitive; Cohere: error_toxic; Bedrock: content_filtered,
    # guardrail_intervened; Anthropic: refusal
    (
        Ending("content_filter"),
        "content_filter content_filtered content_filtering content_policy content_policy_violation content_blocked "
        "filter filtered blocked blocklist safety unsafe recitation language prohibited_content spii model_armor "
        "image_safety image_prohibited_content image_recitation sensitive error_toxic moderation moderated "
        "guardrail guardrails guardrail_intervened policy_violation data_inspection_failed refusal refused",
    ),
    # Zhipu, OpenRouter: network_error; vLLM, SGLang: abort with an error beside it; LM Studio: model_unloaded
    (
        Ending(fault="server_error"),
        "error errored server_error internal_error internal_server_error network_error failed fail failure exception "
        "crash crashed rejected reject internal error_limit model_unloaded image_other no_image malformed_response "
        "malformed_model_output",
    ),
    # DeepSeek: insufficient_system_resource
    (
        Ending(fault="overloaded"),
        "insufficient_system_resource insufficient_system_resources overloaded overload engine_overloaded "
        "out_of_memory oom capacity no_capacity busy unavailable",
    ),
    (Ending(fault="rate_limit"), "rate_limit rate_limited rate_limit_exceeded throttled"),
    (Ending(fault="insufficient_quota"), "quota quota_exceeded insufficient_quota insufficient_balance"),
    # Gemini: the first four; Bedrock: malformed_tool_use
    (
        Ending(fault="tool_use_failed"),
        "malformed_function_call unexpected_tool_call too_many_tool_calls missing_thought_signature "
        "malformed_tool_use malformed_tool_call invalid_function_call invalid_tool_call tool_use_failed "
        "tool_call_failed tool_error",
    ),
    # Cohere: timeout; watsonx: time_limit
    (
        Ending(fault="timeout"),
        "timeout timed_out time_out time_limit time_limit_exceeded deadline deadline_exceeded request_timeout",
    ),
    # vLLM, SGLang: abort; Cohere: user_cancel; watsonx: cancelled, not_finished; LM Studio: user_stopped
    (
        Ending(fault="upstream_incomplete"),
        "abort aborted cancel cancelled canceled user_cancel user_cancelled user_canceled user_stopped interrupted "
        "interrupt terminated disconnected disconnect connection_closed connection_lost connection_reset preempted "
        "evicted killed shutdown unexpected_eof not_finished unfinished",
    ),
)
_ENDINGS = {word: ending for ending, words in _WORDS for word in words.split()}
"""What each word means, in lower case and with `_` between its parts."""

_SEPARATORS = re.compile(r"[:.,;|/()\[\]]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_LETTERS = re.compile(r"[^a-z0-9]+")
_TOKEN = re.compile(r"<[^<>]*>")
_NO_REASON = frozenset(("null", "none"))
_FAILURE_PARTS = frozenset(("error", "errors", "failed", "failure", "exception"))
_TELLING_PARTS = (
    (frozenset(("timeout",)), Ending(fault="timeout")),
    (frozenset(("overloaded", "unavailable")), Ending(fault="overloaded")),
    (frozenset(("crash", "crashed", "rejected")), Ending(fault="server_error")),
    (
        frozenset(
            ("abort", "aborted", "cancel", "cancelled", "canceled", "interrupted", "disconnected", "disconnect")
            + ("terminated", "killed", "shutdown", "preempted", "evicted")
        ),
        Ending(fault="upstream_incomplete"),
    ),
    (frozenset(("blocked", "filtered", "unsafe", "moderated", "guardrail", "refused")), Ending("content_filter")),
)
"""What single words within a word mean (`cancelled_by_client`, `engine_shutdown`, `blocked_by_policy`)."""
_MAX_WORD = 200
"""Of a longer word, only so many characters are looked at."""


def is_reason(word: str | None) -> bool:
    """Whether a finish reason is one. Some servers write `null` as a text into each chunk (DashScope's own API)."""
    return bool(word) and word.strip().lower() not in _NO_REASON  # type: ignore[union-attr]  # not None here


def find_ending(word: str) -> Ending:
    """Return what a server's finish word means. It may be in any case and spelling, have a prefix or a reason behind a
    colon (Gemini's `function_call_filter: MALFORMED_FUNCTION_CALL`), or be the token that ended the text.

    Of several parts with a meaning, a failure counts before the others, and `stop` only if it is alone.
    """
    if (ending := _ENDINGS.get(word)) is not None:
        return ending
    word = word[:_MAX_WORD].strip()
    if _TOKEN.fullmatch(word):
        return STOP  # Together: `<|eot_id|>`, `<｜end▁of▁sentence｜>` (vespa-engine/vespa#33327)
    if (status := http_status(word)) is not None:
        return Ending(fault=by_status(status, None, ""))
    found = [_find_part(part) for part in _SEPARATORS.split(word)]
    known = [ending for ending in found if ending is not None]
    failed = [ending for ending in known if ending.fault is not None]
    special = [ending for ending in known if ending.reason != "stop"]
    return next(iter(failed[-1:] or special[-1:] or known), _UNKNOWN)


def _find_part(part: str) -> Ending | None:
    """Return what a part of a word means; None if that is not known."""
    name = _NO_LETTERS.sub("_", _HUMP.sub("_", part).lower()).strip("_").removeprefix("finish_reason_")
    ending = _ENDINGS.get(name)
    if ending is not None:
        return ending
    parts = name.split("_")
    if not _FAILURE_PARTS.isdisjoint(parts):
        return Ending(fault=by_words(name.replace("_", " ")) or by_words(name) or "server_error")
    return next((found for words, found in _TELLING_PARTS if not words.isdisjoint(parts)), None)
