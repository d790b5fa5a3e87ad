"""Values are masked in what users and tools say, and put back to placeholders in what the model said."""

import re
from collections.abc import Sequence

from app.chat.known_conversation import KnownConversation
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.guards.detectors import DETECTORS, make_pattern
from app.guards.masking import ValueMasker, mask_conversation, mask_message, mask_quotes
from app.guards.placeholders import Placeholders
from app.guards.spans import MaskedText, Refused, Span, SpanRule

from tests.each_case import each_case

MAIL, WORD = "ann@example.com", "[EMAIL_YGDF6NR7]"


def make_masker(placeholders: Placeholders, action: str = "mask", searched: list[str] | None = None) -> ValueMasker:
    """`searched` gets the texts that are searched."""

    def find(text: str) -> Sequence[tuple[Span, SpanRule]]:
        if searched is not None:
            searched.append(text)
        return [(span, SpanRule("pii", action)) for span in DETECTORS["email"](text)]

    return ValueMasker(find, placeholders, lambda value: value == "bot@example.com", None if action == "mask" else find)


def test_each_part_of_a_message_is_masked_and_what_has_no_value_is_the_same_object() -> None:
    masker = make_masker(Placeholders(bytes(32), ""))
    media = Media("file", ("data:,",), name=MAIL)
    message = Message("user", (Text(f"To {MAIL}"), media, Text("none")))
    masked, refused = mask_message(message, masker)
    assert masked.parts[0] == Text(f"To {WORD}")
    assert isinstance(masked.parts[1], Media)
    assert (masked.parts[1].name, masked.parts[2] is message.parts[2], refused) == (WORD, True, [])
    plain = Message("tool", (ToolResult((Text("none"), media.__class__("image", ("data:,",)))),))
    assert mask_message(plain, masker)[0] is plain
    assert masker.counts == {"pii": 2}


def test_the_model_may_say_what_it_makes_up_and_what_was_found_before_is_masked() -> None:
    placeholders = Placeholders(bytes(32), "")
    masker = make_masker(placeholders)
    answer = Message("assistant", (Reasoning(f"x{MAIL}y bob@example.com"), ToolCall("f", f'{{"to":"{MAIL}"}}')))
    assert mask_message(answer, masker)[0] is answer
    masker.mask(MAIL)
    masked = mask_message(answer, masker)[0]
    assert masked.parts == (Reasoning(f"x{WORD}y bob@example.com"), ToolCall("f", f'{{"to":"{WORD}"}}'))


def test_arguments_are_masked_behind_their_escapes_and_when_they_are_no_json() -> None:
    placeholders = Placeholders(bytes(32), "")
    word = placeholders.mask("SECRET", 'a"b\n')
    masker = make_masker(placeholders)
    masker.words.update(placeholders.words)
    assert masker.mask_arguments('{"x": "\\u0061\\"b\\n"}', of_model=True).text == f'{{"x": "{word}"}}'
    assert masker.mask_arguments('{"x": 1.0}', of_model=True).text == '{"x": 1.0}'
    masker.mask(MAIL)
    assert masker.mask_arguments(f"send {MAIL}", of_model=True).text == f"send {WORD}"
    assert masker.mask_arguments(f'{{"x": "{MAIL}", "y', of_model=True).text == f'{{"x": "{WORD}", "y'


@each_case(
    "text,expected",
    [
        ('{"to": "\\u0061nn@example.com"}', f'{{"to": "{WORD}"}}'),
        (
            '{"to": "\\u4e2d", "n": 1.0,  "b": "ann\\u0040example.com"}',
            f'{{"to": "\\u4e2d", "n": 1.0,  "b": "{WORD}"}}',
        ),
        ('["{\\"to\\": \\"ann\\\\u0040example.com\\"}"]', f'["{{\\"to\\": \\"{WORD}\\"}}"]'),
        ('{"\\u0061nn@example.com": "a\\/b"}', f'{{"{WORD}": "a\\/b"}}'),
        (f'{{"to": "{MAIL}", "x": "\\u00fc"}}', f'{{"to": "{WORD}", "x": "\\u00fc"}}'),
        ('{"to": "ann\\u0040example.com", "cut', f'{{"to": "{WORD}", "cut'),
        ("no\\u0040value", "no\\u0040value"),
    ],
)
def test_values_behind_the_escapes_of_a_result_in_json_are_found(text: str, expected: str) -> None:
    """`json.dumps` of Python writes all but ASCII so."""
    result = Message("tool", (ToolResult((Text(text),)),))
    masked, _ = mask_message(result, make_masker(Placeholders(bytes(32), "")))
    assert masked.parts == (ToolResult((Text(expected),)),)
    refused = make_masker(Placeholders(bytes(32), ""), "reject").mask(text).refused
    assert (refused is None) is (text == expected)


@each_case(
    "text,value,expected",
    [
        ('{"a": "\\ud83d\\ude00key", "b": "\\ud83d"}', "😀key", '{"a": "[KEY]", "b": "\\ud83d"}'),
        ('{"a": "k\\/key"}', "k/key", '{"a": "[KEY]"}'),
        ('{"a": "\\u006bkey\\ud83d"}', "kkey\ufffd", '{"a": "[KEY]"}'),
        ("k\\/key", "k/key", "[KEY]"),
    ],
)
def test_a_value_behind_escapes_is_kept_as_it_is_read(text: str, value: str, expected: str) -> None:
    find = make_pattern("KEY", r"[^\s\"]*key[^\s\"]*")
    placeholders = Placeholders(bytes(32), "")
    masker = ValueMasker(
        lambda text: [(span, SpanRule("pii", "mask")) for span in find(text)], placeholders, lambda _: False
    )
    masked = masker.mask(text).text
    assert ([*placeholders.values.values()], re.sub(r"KEY_\w+", "KEY", masked)) == ([value], expected)
    hidden = masker.hide(text)
    assert re.sub(r"KEY_\w+", "KEY", hidden.text).count("[KEY]") == 1


def test_what_no_text_may_have_is_redacted_or_refused_in_answers_too() -> None:
    answer = Message("assistant", (Reasoning(MAIL), Text(MAIL)), extra={"reasoning_details": [1], "other": 2})
    redacted, _ = mask_message(answer, make_masker(Placeholders(bytes(32), ""), "redact"))
    assert redacted.parts == (Reasoning("[EMAIL]"), Text("[EMAIL]"))
    assert redacted.extra == {"other": 2}
    _, refused = mask_message(answer, make_masker(Placeholders(bytes(32), ""), "reject"))
    assert [(place, why.kind) for place, why in refused] == [(0, "EMAIL"), (1, "EMAIL")]


def test_ignored_values_and_placeholders_stay() -> None:
    masker = make_masker(Placeholders(bytes(32), ""))
    assert masker.mask(f"bot@example.com {WORD}").text == f"bot@example.com {WORD}"
    assert masker.mask_value({"a": [MAIL, 1], "b": None}) == {"a": [WORD, 1], "b": None}


def test_the_beginning_of_a_known_conversation_is_not_searched_again() -> None:
    known, messages = KnownConversation(), [Message("user", (Text(f"{MAIL} {number}"),)) for number in range(20)]
    first = Placeholders(bytes(32), "")
    made = mask_conversation(messages, make_masker(first), first, known, ("m",))
    again = Placeholders(bytes(32), "")
    searched: list[str] = []
    masker = make_masker(again, searched=searched)
    more = [*messages, Message("assistant", (Text(f"It is {MAIL}"),))]
    done = mask_conversation(more, masker, again, known, ("m",))
    assert searched == []
    assert all(one is other for one, other in zip(made.messages, done.messages, strict=False))
    assert done.messages[-1].parts == (Text(f"It is {WORD}"),)
    changed = [*messages[:-1], Message("user", (Text("other"),))]
    mask_conversation(changed, masker, again, known, ("m",))
    assert searched == ["other"]


def test_a_value_of_a_message_that_was_changed_is_not_known_any_more() -> None:
    known, gone = KnownConversation(), "alice@example.net"
    first = [Message("user", (Text(MAIL),)), Message("user", (Text(gone),))]
    placeholders = Placeholders(bytes(32), "")
    mask_conversation(first, make_masker(placeholders), placeholders, known, ("m",))
    changed = [first[0], Message("user", (Text("other"),)), Message("assistant", (Text(f"{MAIL} {gone}"),))]
    again = Placeholders(bytes(32), "")
    done = mask_conversation(changed, make_masker(again), again, known, ("m",))
    assert done.messages[2].parts == (Text(f"{WORD} {gone}"),)
    assert [*again.values.values()] == [MAIL]


def test_an_answer_stays_as_it_was_when_its_values_are_found_behind_it() -> None:
    placeholders = Placeholders(bytes(32), "")
    guess = Message("assistant", (ToolCall("find", f'{{"to":"{MAIL}"}}'),))
    result = Message("tool", (ToolResult((Text(MAIL),)),))
    for messages in ([guess], [guess, result], [guess, result, Message("assistant", (Text(MAIL),))]):
        done = mask_conversation(messages, make_masker(placeholders), placeholders, None)
        assert done.messages[0] is guess, "a server's cache of the prompt, and signatures, hold for these bytes"
    assert done.messages[2].parts == (Text(WORD),)


def test_what_an_answer_quotes_of_a_file_before_it_is_masked() -> None:
    placeholders = Placeholders(bytes(32), "")
    answer = Message("assistant", (Text(f"It has {MAIL}"),))
    file = Message("user", (Media("file", ("data:,a",)),))
    result = Message("tool", (ToolResult((Media("file", ("data:,a",)),)),))
    placeholders.mask("EMAIL", MAIL)
    files = {"data:,a": placeholders.words}
    for given in (file, result):
        masked = mask_quotes([answer, given, answer], make_masker(placeholders), files)
        assert [message.parts for message in masked] == [answer.parts, given.parts, (Text(f"It has {WORD}"),)]


def test_two_values_with_one_word_have_two() -> None:
    placeholders = Placeholders(bytes(32), "")
    placeholders.values["EMAIL_YGDF6NR7"] = "another"
    word = placeholders.mask("EMAIL", MAIL)
    assert word != WORD
    assert placeholders.values[word[1:-1]] == MAIL
    assert Placeholders(bytes(32), "a").mask("EMAIL", MAIL) != WORD


def test_signed_reasoning_and_details_of_calls_mask_back_with_their_text() -> None:
    masker = make_masker(Placeholders(bytes(32), ""))
    mask_message(Message("user", (Text(f"To {MAIL}"),)), masker)
    detail = {"type": "reasoning.text", "text": f"Mail {MAIL}", "signature": "c2ln"}
    call = ToolCall("send", "{}", "c1", {"extra_content": {MAIL: [MAIL, 1]}})
    given = Message("assistant", (Reasoning(f"Mail {MAIL}"), call), extra={"reasoning_details": [detail]})
    masked, _ = mask_message(given, masker)
    assert masked.extra == {"reasoning_details": [{**detail, "text": f"Mail {WORD}"}]}
    assert masked.parts == (
        Reasoning(f"Mail {WORD}"),
        ToolCall("send", "{}", "c1", {"extra_content": {WORD: [WORD, 1]}}),
    )
    other = Message("assistant", (Text("Hm."),), extra={"reasoning_details": [{"text": "nothing"}]})
    assert mask_message(other, masker)[0] is other


def test_names_and_keys_are_masked_with_what_was_found_before() -> None:
    masker = make_masker(Placeholders(bytes(32), ""))
    masker.words["PERSON", "Ann Lee"] = "PERSON_AAAAAAAA"
    message = Message("user", (Media("file", ("data:,",), name="Ann Lee.pdf"),), "Ann Lee")
    masked, _ = mask_message(message, masker)
    assert (masked.name, masked.parts) == (
        "[PERSON_AAAAAAAA]",
        (Media("file", ("data:,",), name="[PERSON_AAAAAAAA].pdf"),),
    )
    assert masker.mask_value({MAIL: ["Ann Lee", 1]}) == {WORD: ["[PERSON_AAAAAAAA]", 1]}


def mask_with(text: str, *found: tuple[int, int, str, str]) -> tuple[MaskedText, ValueMasker]:
    """Mask a text in which guards have found values: (start, end, guard, action)."""
    spans = [(Span(start, end, guard.upper()), SpanRule(guard, action)) for start, end, guard, action in found]
    masker = ValueMasker(lambda text: spans, Placeholders(bytes(32), ""), lambda value: False)
    return masker.mask(text), masker


def test_a_guard_that_observes_hides_no_value_from_others() -> None:
    masked, masker = mask_with("Ask Ann Lee.", (4, 11, "try", "observe"), (4, 11, "names", "redact"))
    assert (masked.text, masker.counts) == ("Ask [NAMES].", {"try": 1, "names": 1})


def test_of_values_that_overlap_nothing_is_left() -> None:
    masked, masker = mask_with("Ann Lee Vining.", (0, 7, "names", "mask"), (4, 14, "places", "mask"))
    assert masked.text == f"[{masker.words['NAMES', 'Ann Lee Vining']}]."
    masked, _ = mask_with("Ann Lee Vining.", (0, 7, "names", "mask"), (4, 14, "places", "reject"))
    assert masked.refused == Refused("places", "PLACES")


HIDDEN: list[tuple[tuple[int, int], tuple[int, int] | None]] = [
    ((0, 3), (0, 3)),
    ((0, 8), (0, 19)),  # a word counts as its whole value
    ((6, 9), None),
    ((4, 20), None),
    ((19, 25), (4, 24)),
    ((20, 25), (19, 24)),
    ((21, 28), (20, 41)),
    ((43, 44), (41, 42)),
]


@each_case("place, original", HIDDEN)
def test_a_place_in_a_hidden_text_is_found_in_the_original(
    place: tuple[int, int], original: tuple[int, int] | None
) -> None:
    masker = make_masker(Placeholders(bytes(32), ""))
    text = f"Ask {MAIL} and 🙂 {MAIL}."
    hidden = masker.hide(text)
    assert hidden.text == f"Ask {WORD} and 🙂 {WORD}."
    assert hidden.find_original(*place) == original


def test_what_is_refused_or_redacted_is_hidden_and_what_is_counted_is_not() -> None:
    for action, shown in (("reject", "[EMAIL]"), ("redact", "[EMAIL]"), ("observe", MAIL)):
        assert make_masker(Placeholders(bytes(32), ""), action).hide(f"To {MAIL}").text == f"To {shown}"
