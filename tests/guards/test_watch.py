"""How replies are cut into pieces that guards are asked about, and what becomes of their events."""

import time

from app.chat.events import (
    Event,
    Extra,
    Failed,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
)
from app.chat.policy import PolicyRefusal
from app.guards.rules import GuardRule, WindowRules, make_window_rules
from app.guards.watch import RefusalStage, Segmenter, find_window_end, list_reply_parts, replace_reply_texts
from hypothesis import given
from hypothesis import strategies as st

SIZE = 20
TEXTS = st.text(alphabet="ab .\n。!", max_size=200) | st.lists(
    st.sampled_from(["word ", "word more ", "x" * 30, "ab" * 9, ". ", "."]), max_size=40
).map("".join)


def cut_windows(text: str, cuts: list[int]) -> list[str]:
    segmenter = Segmenter(WindowRules(SIZE))
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    events: list[Event] = [
        TextDelta(text[start:end]) for start, end in zip(places, places[1:], strict=False) if start < end
    ]
    segments = [segment for event in [*events, Finish("stop")] for segment in segmenter.feed(event)]
    return ["".join(event.text for event in one.events if isinstance(event, TextDelta)) for one in segments]


@given(TEXTS, st.lists(st.integers(0, 200), max_size=9))
def test_the_cuts_of_a_stream_do_not_move_windows(text: str, cuts: list[int]) -> None:
    windows = cut_windows(text, cuts)
    assert windows == cut_windows(text, [*range(len(text))])
    assert "".join(windows) == text
    assert all(SIZE <= len(window) <= 4 * SIZE + 1 for window in windows[:-1])


def test_a_window_ends_at_a_sentence_then_at_white_space_then_at_four_times_its_size() -> None:
    assert find_window_end("", "All is well in the first part. Then", SIZE) == 31
    assert find_window_end("", "This is a first line.\nSecond", SIZE) == 22
    assert find_window_end("", "好" * 22 + "。好", SIZE) == 23
    assert find_window_end("", "word " * 20, SIZE) == 40
    assert find_window_end("", "word " * 10 + "word. More", SIZE) == 40
    assert find_window_end("", "x" * 90 + ". More", SIZE) == 80
    assert find_window_end("", "x" * 100, SIZE) == 80
    assert find_window_end("", "short", SIZE) == 0
    assert find_window_end("All is well in the first part", ". Then", SIZE) == 2


def test_one_large_text_takes_linear_time() -> None:
    def measure(count: int) -> float:
        began = time.process_time()
        assert len(cut_windows("All is well here. " * count, [])) > count // 2
        return time.process_time() - began

    assert measure(64_000) < 30 * max(measure(8_000), 0.01)


def test_calls_and_what_follows_them_are_one_piece() -> None:
    segmenter = Segmenter(WindowRules(SIZE))
    events: list[Event] = [
        ReasoningDelta("Hm."),
        TextDelta("I look. "),
        ToolCallDelta(0, "{", "c", "ls"),
        TextDelta("A text behind the call.\n"),
        Finish("tool_calls"),
    ]
    segments = [segment for event in events for segment in segmenter.feed(event)]
    assert [one.events for one in segments] == [events[:1], events[1:2], events[2:4]]
    assert segments[-1].end == events[-1]


def test_the_strictest_guard_decides_how_a_reply_is_held() -> None:
    window = GuardRule("a", url="u", stream="window", window_characters=50, overlap_characters=5)
    assert make_window_rules([window]) == WindowRules(50, 5)
    assert make_window_rules([window, GuardRule("b", url="u")]) == WindowRules()
    assert make_window_rules([GuardRule("b", url="u", reasoning="withhold")]).withholds_reasoning


def test_parts_are_runs_of_one_kind_and_whole_calls() -> None:
    events: list[Event] = [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        TextDelta("c"),
        TokenLogprobs([]),
        TextDelta("d"),
        ToolCallDelta(0, '{"x"', "c1", "ls"),
        ToolCallDelta(1, "{}", "c2", "rm"),
        ToolCallDelta(0, ":1}"),
    ]
    parts = list_reply_parts(events)
    assert [(part.kind, part.text, part.name) for part in parts] == [
        ("reasoning", "ab", None),
        ("text", "cd", None),
        ("arguments", '{"x":1}', "ls"),
        ("arguments", "{}", "rm"),
    ]
    replaced = replace_reply_texts(events, {"output[1]": "new", "output[2]": "{}"})
    assert [(part.kind, part.text) for part in list_reply_parts(replaced)] == [
        *(("reasoning", "ab"), ("text", "new"), ("arguments", "{}"), ("arguments", "{}"))
    ]


def test_a_text_that_only_a_field_has_is_a_part_and_goes_with_its_field() -> None:
    note = Extra({"annotations": [{"title": "zebra", "url": "http://x", "type": "url"}]})
    same = Extra({"reasoning_details": [{"text": "ab", "signature": "c2ln"}]})
    media = MediaOutput("audio", "data:,", {"transcript": "spoken"})
    events: list[Event] = [ReasoningDelta("ab"), same, note, media]
    assert [part.text for part in list_reply_parts(events)] == ["ab", "zebra\nhttp://x", "spoken"]
    assert replace_reply_texts(events, {"extra[2]": "***"}) == [events[0], same, media]


def test_a_reader_is_told_of_a_refusal_in_words_or_by_a_failure() -> None:
    end = Finish("content_filter", {"total_tokens": 3}, policy=PolicyRefusal("house", "zebra"))
    sentence = "The policy house refused this: zebra."
    assert RefusalStage(fails=False).feed([TextDelta("a"), end]) == [
        *(TextDelta("a"), TextDelta(sentence, refusal=True), end)
    ]
    failed = RefusalStage(fails=True).feed([end])[0]
    assert isinstance(failed, Failed)
    assert (failed.fault.code, failed.fault.message, failed.fault.usage) == (
        *("content_filter", sentence, {"total_tokens": 3}),
    )
    for events in ([], [TextDelta("a")], [Finish("content_filter")]):
        assert RefusalStage(fails=True).feed(list(events)) == events


def test_words_that_the_model_did_not_choose_are_left_out_of_log_probabilities() -> None:
    chosen = {"token": "Hi", "logprob": -0.1, "bytes": None}
    token = {**chosen, "top_logprobs": [chosen, {"token": "zebra", "logprob": -2.0, "bytes": None}]}
    for rules in (WindowRules(), WindowRules(SIZE)):
        segmenter = Segmenter(rules)
        events: list[Event] = [TokenLogprobs([token]), TextDelta("Hi"), Finish("stop")]
        segments = [segment for event in events for segment in segmenter.feed(event)]
        assert segments[0].events == [TokenLogprobs([{**chosen, "top_logprobs": [chosen]}]), TextDelta("Hi")]
        assert segmenter.has_cut_alternatives
        same = TokenLogprobs([{**chosen, "top_logprobs": [chosen]}, {**chosen, "top_logprobs": []}, chosen])
        other = Segmenter(rules)
        assert [*other.feed(same), *other.feed(Finish("stop"))][0].events[0] is same
