"""Which log probabilities go on with which text."""

from app.chat.events import Event, ReasoningDelta, TextDelta
from app.chat.token_record import Token, TokenRecord

from tests.each_case import each_case


def token(text: str) -> Token:
    return {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}


def make_record(*parts: tuple[list[Event], str]) -> TokenRecord:
    """A record of parts of a reply, each with its tokens, which `|` separates; "" for none."""
    record = TokenRecord()
    for events, tokens in parts:
        record.add(events, [token(one) for one in tokens.split("|")] if tokens else None)
    return record


def take(record: TokenRecord, text: str) -> str:
    return "|".join([one["token"] for one in record.take(text)])


HELLO = [TextDelta("Hello, you")]


@each_case(
    ("taken", "expected"),
    [
        (["Hello, you"], ["Hello|,| you"]),
        (["Hel", "lo, you"], ["", "Hello|,| you"]),
        (["Hello", ",", " you"], ["Hello", ",", " you"]),
        (["Hello, y"], ["Hello|,"]),
    ],
)
def test_a_token_goes_on_with_its_last_character(taken: list[str], expected: list[str]) -> None:
    record = make_record((list(HELLO), "Hello|,| you"))
    assert [take(record, text) for text in taken] == expected
    assert not record.has_changed
    assert record.has_rest is (taken == ["Hello, y"])


@each_case("changed", ["hello, you", "Hello, you too", "you"])
def test_none_goes_on_after_text_that_the_server_has_not_sent(changed: str) -> None:
    record = make_record((list(HELLO), "Hello, you"))
    take(record, changed)
    record.add([TextDelta("x")], [token("x")])
    assert record.has_changed
    assert take(record, "x") == ""


def test_tokens_that_do_not_make_up_the_text_go_on_with_all_of_it() -> None:
    record = make_record(([TextDelta("Hi")], "H|i|<end>"))
    assert [take(record, "H"), take(record, "i")] == ["", "H|i|<end>"]


def test_a_token_without_a_text_goes_on_with_its_neighbours() -> None:
    record = TokenRecord()
    record.add([TextDelta("Hi")], [token(text) for text in ("", "H", "", "i", "")])
    assert [len(record.take("H")), len(record.take("i"))] == [2, 3]


def test_tokens_that_come_before_their_character_go_on_with_it() -> None:
    record = make_record(([], "a"), ([TextDelta("é")], "b"))
    assert take(record, "é") == "a|b"


def test_tokens_of_reasoning_and_calls_are_left_out() -> None:
    record = make_record(([ReasoningDelta("Hm")], "Hm"), ([], "x"), ([ReasoningDelta("m")], "m"))
    record.add([ReasoningDelta("Hm"), TextDelta("Yes.")], [token(one) for one in ("Hm", "</think>", "Yes", ".")])
    assert take(record, "Yes.") == "Yes|."


def test_a_text_that_cannot_be_found_among_the_tokens_has_a_gap() -> None:
    record = make_record(([ReasoningDelta("Hm"), TextDelta("Yes.")], "Hm|Y|es. No"))
    assert take(record, "Yes.") == ""
    assert record.has_gaps


def test_a_refusal_has_no_log_probabilities() -> None:
    record = make_record(([TextDelta("No", refusal=True)], "No"), ([TextDelta("a")], "a"))
    assert take(record, "a") == "a"


def test_text_without_log_probabilities_is_a_gap() -> None:
    record = make_record(([TextDelta("a")], ""), ([TextDelta("b")], "b"))
    assert [take(record, "a"), take(record, "b")] == ["", "b"]
    assert record.has_gaps
    assert not record.has_changed
