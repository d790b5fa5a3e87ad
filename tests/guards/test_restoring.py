"""Masked values come back in a reply, wherever a model server cuts it."""

import json

import pytest
from app.chat.events import (
    NEXT_MESSAGE,
    Event,
    Extra,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
)
from app.guards.placeholders import Placeholders
from app.guards.restoring import Restorer, RestoringStage, restore_text
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

EVERYTHING = ("text", "reasoning", "arguments")
FORMS = [
    ("[EMAIL_YGDF6NR7]", "ann@example.com"),
    ("EMAIL_YGDF6NR7", "ann@example.com"),
    ("email_ygdf6nr7", "ann@example.com"),
    ("\\[EMAIL_YGDF6NR7\\]", "ann@example.com"),
    ("x%5BEMAIL_YGDF6NR7%5D", "xann@example.com"),
    ("&#91;EMAIL_YGDF6NR7&#93;", "ann@example.com"),
    ("[EMAIL_YGDF6NR7", "[ann@example.com"),
    ("`EMAIL_YGDF6NR7`]", "`ann@example.com`]"),
    ("[EMAIL_AAAAAAAA] [1] [EMU]", "[EMAIL_AAAAAAAA] [1] [EMU]"),
    ("XEMAIL_YGDF6NR7 EMAIL_YGDF6NR7X", "XEMAIL_YGDF6NR7 EMAIL_YGDF6NR7X"),
]


def ignore(word: str, *, known: bool) -> None: ...


def known() -> Placeholders:
    placeholders = Placeholders(bytes(32), "")
    assert placeholders.mask("EMAIL", "ann@example.com") == "[EMAIL_YGDF6NR7]"
    return placeholders


@each_case("text, restored", FORMS)
def test_a_placeholder_is_restored_in_these_forms(text: str, restored: str) -> None:
    assert restore_text(text, known()) == restored
    assert restore_text(text, Placeholders(bytes(32), "")) == text


IN_ARGUMENTS = [
    ("\nEMAIL_YGDF6NR7\n", "\nann@example.com\n"),
    ('\t"EMAIL_YGDF6NR7"', '\t"ann@example.com"'),
    ("a\\EMAIL_YGDF6NR7", "a\\ann@example.com"),
    ("a\\nEMAIL_YGDF6NR7", "a\\nEMAIL_YGDF6NR7"),
    ("a\\\nemail_ygdf6nr7", "a\\\nann@example.com"),
    ("\\[EMAIL_YGDF6NR7\\]", "ann@example.com"),
    ("nEMAIL_YGDF6NR7", "nEMAIL_YGDF6NR7"),
    ("éEMAIL_YGDF6NR7", "éann@example.com"),
]
"""Strings of arguments, and what tools get."""


@pytest.mark.parametrize("ascii_", [True, False])
@each_case("text, restored", IN_ARGUMENTS)
def test_a_letter_of_an_escape_does_not_belong_to_a_word(text: str, restored: str, ascii_: bool) -> None:
    arguments = json.dumps({"x": text}, ensure_ascii=ascii_)
    assert json.loads(restore_text(arguments, known(), in_json=True)) == {"x": restored}
    restorer = Restorer(known(), ignore, in_json=True)
    assert json.loads("".join([*map(restorer.feed, arguments), restorer.close()])) == {"x": restored}


PIECES = st.lists(
    st.sampled_from(
        [form for form, _ in FORMS] + ["[", "]", "\\", "%5", "&#9", "E", "EMAIL", "_", "YGDF6NR7", " ", "a", "é"]
    ),
    max_size=8,
)


ESCAPES = st.lists(
    st.sampled_from([*(form for form, _ in FORMS), "\\", "\\n", "\\\\", "\\u00e9", '\\"', "u00", "n", "E", "[", "é"]),
    max_size=8,
)


@given(st.one_of(PIECES, ESCAPES), st.lists(st.integers(0, 200), max_size=6), st.booleans())
def test_the_cuts_of_a_stream_change_nothing(parts: list[str], cuts: list[int], in_json: bool) -> None:
    text = "".join(parts)
    whole = restore_text(text, known(), in_json=in_json)
    restorer = Restorer(known(), ignore, in_json=in_json)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in zip(places, places[1:], strict=False)]
    assert "".join([*map(restorer.feed, pieces), restorer.close()]) == whole


def test_what_cannot_begin_a_placeholder_is_not_held() -> None:
    restorer = Restorer(known(), ignore)
    assert [restorer.feed(text) for text in ("To [", "EM", "U], the", " word ema", "nates")] == [
        *("To ", "", "[EMU], the", " word ", "emanates")
    ]


def join(events: list[Event]) -> list[tuple[str, str]]:
    """Return (kind, text) of each run of texts."""
    out: list[tuple[str, str]] = []
    for event in events:
        kind = type(event).__name__ + (str(event.index) if isinstance(event, ToolCallDelta) else "")
        text = event.arguments if isinstance(event, ToolCallDelta) else getattr(event, "text", "")
        if out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1] + text)
        else:
            out.append((kind, text))
    return out


def restore(events: list[Event], what: tuple[str, ...] = EVERYTHING) -> list[Event]:
    stage = RestoringStage(known(), what)
    return [made for event in events for made in stage.feed([event])]


def test_each_kind_of_text_is_restored_by_itself() -> None:
    events: list[Event] = [
        ReasoningDelta("[EMAIL_"),
        ReasoningDelta("YGDF6NR7]"),
        TextDelta("EMAIL_YGDF"),
        TextDelta("6NR7"),
        ToolCallDelta(0, '{"to":"[EMAIL_', "call_1", "send"),
        ToolCallDelta(1, '{"a":"EMAIL_YGDF', "call_2", "send"),
        ToolCallDelta(0, 'YGDF6NR7]"}'),
        ToolCallDelta(1, '6NR7"}'),
        Finish("tool_calls"),
    ]
    texts: dict[str, str] = {}
    for kind, text in join(restore(events)):
        texts[kind] = texts.get(kind, "") + text
    assert texts == {
        "ReasoningDelta": "ann@example.com",
        "TextDelta": "ann@example.com",
        "ToolCallDelta0": '{"to":"ann@example.com"}',
        "ToolCallDelta1": '{"a":"ann@example.com"}',
        "Finish": "",
    }
    assert restore(events, ()) == events


def test_a_value_is_escaped_in_arguments() -> None:
    placeholders = Placeholders(bytes(32), "")
    word = placeholders.mask("SECRET", 'a"\nb')
    assert restore_text(f'{{"x":"{word}"}}', placeholders, in_json=True) == '{"x":"a\\"\\nb"}'


def test_what_is_held_comes_before_what_ends_its_message() -> None:
    held = TextDelta("[EMAIL_YG")
    for event in (Extra({"a": 1}, NEXT_MESSAGE), MediaOutput("image", "data:,"), Finish("stop"), ReasoningDelta("x")):
        assert restore([held, event])[-2:] == [held, event]
    assert restore([held, TokenLogprobs([])])[0] == TokenLogprobs([])


def test_a_refusal_is_another_text() -> None:
    made = restore([TextDelta("EMAIL_YG"), TextDelta("DF6NR7", refusal=True), Finish("stop")])
    assert made == [TextDelta("EMAIL_YG"), TextDelta("DF6NR7", refusal=True), Finish("stop")]


def test_a_placeholder_of_no_value_stays_with_a_warning() -> None:
    *_, end = restore([TextDelta("See [EMAIL_AAAAAAAA]."), Finish("stop")])
    assert isinstance(end, Finish)
    assert "unknown_placeholder" in end.warnings[0]
    assert "[EMAIL_AAAAAAAA]" in end.warnings[0]


def test_annotations_and_transcripts_are_restored() -> None:
    note = Extra({"annotations": [{"title": "EMAIL_YGDF6NR7", "index": 1}]})
    media = MediaOutput("audio", "data:,", {"transcript": "[EMAIL_YGDF6NR7]"})
    restored = restore([note, media, Extra({"reasoning_details": ["[EMAIL_YGDF6NR7]"]})])
    assert restored[0] == Extra({"annotations": [{"title": "ann@example.com", "index": 1}]})
    assert restored[1] == MediaOutput("audio", "data:,", {"transcript": "ann@example.com"})
    assert restored[2] == Extra({"reasoning_details": ["[EMAIL_YGDF6NR7]"]})


@each_case("name", ["annotations", "compaction"])
def test_what_comes_between_two_messages_is_restored_too(name: str) -> None:
    events = restore([TextDelta("See"), Extra({name: ["[EMAIL_YGDF6NR7]"]}, NEXT_MESSAGE), Finish("stop")])
    assert events[1] == Extra({name: ["ann@example.com"]}, NEXT_MESSAGE)
