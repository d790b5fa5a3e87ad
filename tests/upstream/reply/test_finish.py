"""What the words mean with which servers end a reply."""

import json

from app.chat.events import Failed, Finish, FinishReason
from app.errors import CODES
from app.upstream.reply import finish
from app.upstream.reply.finish import Ending, find_ending, is_reason

from tests.each_case import each_case
from tests.upstream.reply.assembled_events import events

TEXT = b'{"choices":[{"delta":{"content":"Half of it"}}]}'


def ending(**choice: object) -> Finish | Failed:
    """How a text ends whose last chunk has these fields in its choice."""
    last = events(TEXT, json.dumps({"choices": [{"delta": {}, **choice}]}).encode(), b"[DONE]")[-1]
    assert isinstance(last, Finish | Failed)
    return last


@each_case(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("eosFound", "stop"),
        ("end", "stop"),
        ("end_turn", "stop"),
        ("COMPLETE", "stop"),
        ("<|eot_id|>", "stop"),
        ("<｜end▁of▁sentence｜>", "stop"),
        ("FinishReason.STOP", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("maxPredictedTokensReached", "length"),
        ("max-tokens", "length"),
        ("FINISH_REASON_MAX_TOKENS", "length"),
        ("FinishReason.MAX_TOKENS", "length"),
        ("model_context_window_exceeded", "length"),
        ("length: max_new_tokens", "length"),
        ("stop: length", "length"),
        ("finished: max_tokens: 512", "length"),
        ("content_filter", "content_filter"),
        ("contentFilter", "content_filter"),
        ("CONTENT_FILTER: RECITATION", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        (" safety ", "content_filter"),
        ("blocked_by_policy", "content_filter"),
        ("turn_complete", "stop"),
        ("tool-calls", "tool_calls"),
        ("toolUse", "tool_calls"),
    ],
)
def test_a_word_means_the_same_in_any_spelling_and_in_any_part(word: str, reason: FinishReason) -> None:
    assert find_ending(word) == Ending(reason)


@each_case(
    ("word", "kind"),
    [
        ("error", "server_error"),
        ("server_error", "server_error"),
        ("failed", "server_error"),
        ("rejected", "server_error"),
        ("provider_error", "server_error"),
        ("GenerationFailed", "server_error"),
        ("engine exception", "server_error"),
        ("rate_limit_error", "rate_limit"),
        ("insufficient_system_resource", "overloaded"),
        ("timeout", "timeout"),
        ("error: timed_out", "timeout"),
        ("time_limit", "timeout"),
        ("abort", "upstream_incomplete"),
        ("interrupted", "upstream_incomplete"),
        ("USER_CANCEL", "upstream_incomplete"),
        ("MALFORMED_FUNCTION_CALL", "tool_use_failed"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "tool_use_failed"),
        ("UNEXPECTED_TOOL_CALL", "tool_use_failed"),
        ("stop: network_error", "server_error"),
        ("cancelled_by_client", "upstream_incomplete"),
        ("engineShutdown", "upstream_incomplete"),
        ("worker_unavailable", "overloaded"),
        ("502", "server_error"),
        ("429", "rate_limit"),
        ("error: length", "server_error"),
    ],
)
def test_a_word_for_a_failure_fails_the_reply_and_is_named(word: str, kind: str) -> None:
    failed = ending(finish_reason=word)
    assert isinstance(failed, Failed)
    assert failed.fault.code == kind
    assert word in failed.fault.message


def test_every_failure_of_the_table_is_a_code_of_the_gateway() -> None:
    assert {ending.fault for ending in finish._ENDINGS.values()} - {None} <= CODES.keys()


def test_no_word_of_the_table_has_two_meanings() -> None:
    words = [word for _, words in finish._WORDS for word in words.split()]
    assert len(words) == len(set(words))


@each_case("word", ["null", "NULL", " none ", "None", ""])
def test_null_as_a_text_is_no_reason(word: str) -> None:
    assert not is_reason(word)
    assert ending(finish_reason=word) == Finish("stop")


@each_case("reason", [{"type": "length", "length": 5}, {"reason": "length"}, ["length"]])
def test_a_reason_in_an_object_or_a_list_counts(reason: object) -> None:
    assert ending(finish_reason=reason) == Finish("length")


def test_an_unknown_word_is_stop_with_a_warning_that_names_it_and_is_not_cached() -> None:
    for word in ("OTHER", "whatever", "x" * 1000):
        last = ending(finish_reason=word)
        assert isinstance(last, Finish)
        assert (last.reason, last.cacheable, last.native_reason) == ("stop", False, word)
        assert [word[:200] in warning for warning in last.warnings] == [True]
    assert ending(finish_reason="eos") == Finish("stop", native_reason="eos")


@each_case(
    ("word", "native", "reason"),
    [
        ("stop", "MAX_TOKENS", "length"),
        ("stop", "SAFETY", "content_filter"),
        ("stop", "end_turn", "stop"),
        ("stop", "completed", "stop"),
        ("stop", "whatever", "stop"),
        ("stop", None, "stop"),
        ("stop", 7, "stop"),
        ("length", "STOP", "length"),
        ("content_filter", "network_error", "content_filter"),
        ("whatever", "MAX_TOKENS", "length"),
    ],
)
def test_the_providers_own_word_counts_beside_stop(word: str, native: object, reason: FinishReason) -> None:
    last = ending(finish_reason=word, native_finish_reason=native)
    assert isinstance(last, Finish)
    assert (last.reason, last.cacheable, last.warnings) == (reason, True, ())


def test_the_providers_own_word_for_a_failure_fails_the_reply() -> None:
    failed = ending(finish_reason="stop", native_finish_reason="network_error")
    assert isinstance(failed, Failed)
    assert (failed.fault.code, "network_error" in failed.fault.message) == ("server_error", True)


def test_the_first_finish_reason_wins_also_over_a_failure() -> None:
    first, second = (b'{"choices":[{"delta":{},"finish_reason":"%b"}]}' % word for word in (b"length", b"error"))
    assert events(TEXT, first, second, b"[DONE]")[-1] == Finish("length")


def test_the_providers_own_word_for_a_failure_counts_alone() -> None:
    failed = ending(finish_reason=None, native_finish_reason="MALFORMED_FUNCTION_CALL")
    assert isinstance(failed, Failed)
    assert failed.fault.code == "tool_use_failed"
    for native in ("STOP", "null", "MAX_TOKENS", None, 7):
        assert isinstance(ending(finish_reason=None, native_finish_reason=native), Finish)
