"""Stop words that a server let through."""

import json
import random
import time
from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.params import merge_params
from app.profiles import KINDS, Profile
from app.steps.stop_words import MAX_STOP_CHARACTERS, StopWordStage, stop_violations, stop_words
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.steps.recorded_stop_words import CUT_OTHERWISE, GOLDENS, MERGED_OTHERWISE, MERGES, UNITS

END = Finish("stop", {"total_tokens": 3})


def stopped(word: str, **fields: Any) -> Finish:
    """The end of a reply at this word."""
    return Finish("stop", stopped_by=word, **fields)


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def whole(events: list[Event]) -> list[Event]:
    """Text that meets joined, and usage left out: it is only known where the end came in the same read."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, TextDelta) and out and isinstance(out[-1], TextDelta):
            out[-1] = TextDelta(out[-1].text + event.text)
        else:
            out.append(Finish(event.reason) if isinstance(event, Finish) else event)
    return out


@pytest.mark.parametrize("case", [case for case in UNITS if case["stop"]], ids=lambda case: "+".join(case["texts"]))
def test_text_is_cut_where_qwen_agent_cuts_it(case: dict[str, Any]) -> None:
    """Its messages are one text here, a thought between each two."""
    events: list[Event] = []
    for text in case["texts"]:
        events += [TextDelta(text), ReasoningDelta("…")]
    out = StopWordStage(case["stop"]).feed([*events[:-1], END])
    whole = "".join(message["content"][0]["text"] for message in case["result"])
    assert texts(out) == CUT_OTHERWISE.get("+".join(case["texts"]), (whole,))[0]


def test_stop_words_are_a_list_or_one_word() -> None:
    assert stop_words({"stop": "XY"}) == ("XY",)
    assert stop_words({"stop": ["a", "", "b"]}) == ("a", "b")
    assert stop_words({}) == stop_words({"stop": ""}) == stop_words({"stop": []}) == ()


@pytest.mark.parametrize(
    "kept", [{"skip_stopword_postproc": True}, {"extra_body": {"include_stop_str_in_output": True}}]
)
def test_a_caller_who_wants_the_words_has_them(kept: dict[str, Any]) -> None:
    assert stop_words({"stop": "XY", **kept}) == ()


@pytest.mark.parametrize("case", ["09_stop_string", "09_stop_delta"])
def test_a_recorded_stream_ends_before_its_stop_word(case: str) -> None:
    """In delta streams too, and by the whole word, where Qwen-Agent skips the one and takes single letters."""
    golden = json.loads((GOLDENS / f"{case}.json").read_text())
    chunks = golden["upstream"][0]["response"]["chunks"]
    deltas = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    stage = StopWordStage(stop_words(golden["llm_cfg"]["generate_cfg"]))
    out = [event for text in deltas if text for event in stage.feed([TextDelta(text)])]
    assert out == [
        TextDelta("abc" if case == "09_stop_string" else "Tho"),
        stopped("XY" if case == "09_stop_string" else "STOP"),
    ]


def test_stop_words_of_model_and_caller_are_joined() -> None:
    for case in MERGES:
        expected = dict(case["result"])
        if json.dumps(case["new"]) in MERGED_OTHERWISE:
            expected["stop"], _ = MERGED_OTHERWISE[json.dumps(case["new"])]
        assert merge_params(case["base"] or {}, case["new"] or {}) == expected


def test_recorded_configurations_are_merged_into_what_was_sent() -> None:
    golden = json.loads((GOLDENS / "09_gen_merge.json").read_text())
    params = merge_params(golden["llm_cfg"]["generate_cfg"], golden["extra_generate_cfg"])
    body = golden["upstream"][0]["request"]["body"]
    assert {key: params[key] for key in ("stop", "seed", "temperature")} == {
        key: body[key] for key in ("stop", "seed", "temperature")
    }


def test_after_a_cut_nothing_follows() -> None:
    stage = StopWordStage(["STOP"])
    assert stage.feed([TextDelta("a STOP b"), ToolCallDelta(0, "{}", "id", "f")]) == [TextDelta("a "), stopped("STOP")]
    assert stage.feed([TextDelta("c"), END]) == []


def test_a_reply_that_is_cut_after_a_call_still_calls() -> None:
    call, text = ToolCallDelta(0, "{}", "id", "f"), TextDelta("aSTOP b")
    assert StopWordStage(["STOP"]).feed([call, text]) == [call, TextDelta("a"), Finish("tool_calls")]
    stage = StopWordStage(["STOP"])
    assert stage.feed([call]) == [call]
    assert stage.feed([text, END]) == [TextDelta("a"), Finish("tool_calls", END.usage)]


def test_the_usage_of_a_reply_that_came_whole_is_kept() -> None:
    assert StopWordStage(["STOP"]).feed([TextDelta("aSTOP"), END])[-1] == stopped("STOP", usage=END.usage)


def test_a_failure_behind_the_cut_is_no_failure() -> None:
    failed = Failed(Fault("upstream_incomplete", "cut", True))
    assert StopWordStage(["STOP"]).feed([TextDelta("aSTOP"), failed]) == [TextDelta("a"), stopped("STOP")]


def test_a_beginning_is_held_until_it_is_none() -> None:
    stage = StopWordStage(["STOP"])
    assert stage.feed([TextDelta("an ST")]) == [TextDelta("an ")]
    assert stage.feed([TextDelta("ST")]) == [TextDelta("ST")]
    assert stage.feed([TextDelta("O")]) == []
    assert stage.feed([TextDelta("N")]) == [TextDelta("STON")]


@pytest.mark.parametrize("event", [ReasoningDelta("r"), ToolCallDelta(0, "{}", "id", "f"), TextDelta("no", True), END])
def test_a_word_does_not_reach_over_anything_but_text(event: Event) -> None:
    stage = StopWordStage(["STOP"])
    assert stage.feed([TextDelta("ST"), event, TextDelta("OP")])[:2] == [TextDelta("ST"), event]


def test_opaque_fields_do_not_break_a_word() -> None:
    stage = StopWordStage(["STOP"])
    extra = Extra({"a": 1})
    assert stage.feed([TextDelta("xST"), extra, TextDelta("OP")]) == [TextDelta("x"), extra, stopped("STOP")]


def test_thoughts_calls_and_refusals_may_have_the_word() -> None:
    events: list[Event] = [ReasoningDelta("STOP"), ToolCallDelta(0, '"STOP"', "id", "f"), TextDelta("STOP", True), END]
    assert StopWordStage(["STOP"]).feed(events) == events


def test_a_word_that_waited_for_a_longer_one_cuts_when_the_text_ends() -> None:
    stage = StopWordStage(["abcd", "bc"])
    assert stage.feed([TextDelta("xabc")]) == [TextDelta("x")]
    assert stage.feed([ToolCallDelta(0, "{}", "id", "f"), END]) == [TextDelta("a"), stopped("bc", usage=END.usage)]


def test_a_word_that_begins_a_longer_one_cuts_at_once() -> None:
    assert StopWordStage(["ab", "abc"]).feed([TextDelta("xab")]) == [TextDelta("x"), stopped("ab")]


def test_what_is_held_at_the_end_comes_out() -> None:
    stage = StopWordStage(["abcd", "bc"])
    stage.feed([TextDelta("xab")])
    assert stage.feed([END]) == [TextDelta("ab"), END]
    stage = StopWordStage(["abcd", "bc"])
    assert stage.feed([TextDelta("xabc")]) == [TextDelta("x")]
    assert stage.feed([END]) == [TextDelta("a"), stopped("bc", usage=END.usage)]


def test_a_text_without_any_beginning_passes_as_it_is() -> None:
    event = TextDelta("plain")
    assert StopWordStage(["STOP"]).feed([event])[0] is event


_TEXTS = st.text("abc✿", max_size=6).filter(bool)
_EVENTS = st.lists(
    st.one_of(_TEXTS.map(TextDelta), st.just(ReasoningDelta("r")), st.just(ToolCallDelta(0, "{}", "id", "f"))),
    max_size=8,
)


@examples(45)
@given(_EVENTS, st.lists(_TEXTS, min_size=1, max_size=3), st.data())
def test_any_cut_gives_the_same_reply(events: list[Event], words: list[str], data: st.DataObject) -> None:
    expected = StopWordStage(words).feed([*events, END])
    pieces: list[Event] = []
    for event in events:
        if isinstance(event, TextDelta):
            place = data.draw(st.integers(1, len(event.text)))
            pieces += [TextDelta(text) for text in (event.text[:place], *event.text[place:])]
        else:
            pieces.append(event)
    stage = StopWordStage(words)
    out: list[Event] = []
    for event in [*pieces, END]:
        if isinstance(event, TextDelta) and not event.text:
            continue
        out += stage.feed([event])
    assert whole(out) == whole(expected)


@examples(45)
@given(st.text("abc", max_size=12), st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3))
def test_exactly_the_text_before_the_first_stop_word_is_emitted(text: str, words: list[str]) -> None:
    stage = StopWordStage(words)
    out = [event for letter in text for event in stage.feed([TextDelta(letter)])]
    out += stage.feed([END])
    first = min((text.find(word) for word in words if word in text), default=len(text))
    assert texts(out) == text[:first]
    assert [event for event in out if isinstance(event, Finish)] == out[-1:]


def reference(events: list[Event], words: list[str]) -> list[Event]:
    """Runs of text are searched whole; anything but text and opaque fields ends one."""
    out: list[Event] = []
    for event in whole(events):
        if isinstance(event, TextDelta):
            first = min((event.text.find(word) for word in words if word in event.text), default=-1)
            if first >= 0:
                return [*out, *([TextDelta(event.text[:first])] if first else []), Finish("stop")]
        out.append(event)
    return out


@examples(60)
@given(
    st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=4),
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=16),
    st.randoms(use_true_random=False),
)
def test_many_words_at_any_cut_do_what_a_simple_search_does(
    runs: list[str], words: list[str], chance: random.Random
) -> None:
    events: list[Event] = []
    for run in runs:
        while run:
            size = chance.randint(1, len(run))
            events.append(TextDelta(run[:size]))
            run = run[size:]
        events.append(ReasoningDelta("r"))
    events.append(END)
    stage = StopWordStage(words)
    out = [deltas for event in events for deltas in stage.feed([event])]
    assert whole(out) == reference(events, words)


def seconds(words: list[str], pieces: list[str]) -> float:
    stage = StopWordStage(words)
    begin = time.process_time()
    for piece in pieces:
        stage.feed([TextDelta(piece)])
    return time.process_time() - begin


@pytest.mark.many_cases
def test_the_cost_does_not_grow_with_the_number_of_words() -> None:
    """Nearly all of each word is in the text again and again."""
    pieces = ["abcdefg-hijklmn "[at % 16 : at % 16 + 4] for at in range(0, 40_000, 4)]
    few = ["abcdefgX"]
    many = [f"abcdefg{chr(0x4E00 + at)}" for at in range(4000)]
    seconds(few, pieces), seconds(many, pieces)
    assert seconds(many, pieces) < 5 * seconds(few, pieces) + 0.05


@pytest.mark.many_cases
def test_a_held_beginning_is_not_searched_again_with_every_character() -> None:
    word = "a" * 20_000 + "b"
    assert seconds([word], ["a"] * 40_000) < 2


def test_more_stop_words_than_the_model_takes_are_refused() -> None:
    words = [f"w{at}" for at in range(17)]
    assert stop_violations({"stop": words[:16]}, Profile()) == []
    [found] = stop_violations({"stop": words}, Profile())
    assert found.path == "generate_cfg.stop" and "17" in found.message and "16" in found.message
    assert stop_violations({"stop": words}, Profile(max_stop_words=17)) == []
    for kind, most in (("openai", 4), ("groq", 4), ("siliconflow", 4), ("zhipu", 4), ("moonshot", 5)):
        assert stop_violations({"stop": words[:most]}, KINDS[kind]) == []
        assert stop_violations({"stop": words[: most + 1]}, KINDS[kind])


def test_a_stop_word_that_is_too_long_is_refused_by_its_place() -> None:
    long = "x" * (MAX_STOP_CHARACTERS + 1)
    assert stop_violations({"stop": long[1:]}, Profile()) == []
    assert [one.path for one in stop_violations({"stop": ["a", long]}, Profile())] == ["generate_cfg.stop[1]"]
    assert [one.path for one in stop_violations({"stop": long}, Profile())] == ["generate_cfg.stop"]


def test_a_text_that_only_looks_like_a_word_passes_as_it_is() -> None:
    event = TextDelta("a STEP")
    assert StopWordStage(["STOP"]).feed([event])[0] is event


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"stop": ""}, "generate_cfg.stop"),
        ({"stop": ["END", ""]}, "generate_cfg.stop[1]"),
        ({"extra_body": {"stop": [""]}}, "generate_cfg.extra_body.stop[0]"),
        ({"extra_body": {"stop": 5}}, "generate_cfg.extra_body.stop"),
    ],
)
def test_an_empty_stop_word_is_refused_by_its_place(params: dict[str, Any], place: str) -> None:
    [found] = stop_violations(params, Profile())
    assert found.path == place
    assert stop_violations({"stop": None, "extra_body": {"stop": ["END"]}}, Profile()) == []


@given(st.lists(st.text(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=3), st.data())
def test_a_stop_word_is_found_wherever_the_text_is_cut(words: list[str], data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(st.sampled_from("abcd"), max_size=5), max_size=8))
    whole = "".join(texts)
    starts = [place for place in (whole.find(word) for word in words) if place >= 0]
    stage = StopWordStage(words)
    out = [event for text in texts for event in stage.feed([TextDelta(text)])] + stage.feed([Finish("stop")])
    assert "".join(event.text for event in out if type(event) is TextDelta) == whole[: min(starts, default=len(whole))]
