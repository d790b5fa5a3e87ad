"""How a conversation is split into turns and steps, and each single cut."""

from app.chat.messages import Media, Message, Reasoning, Role, Text, ToolCall, ToolResult
from app.steps.truncation.cutting import OMITTED, ConversationCutter, split_steps, split_turns
from app.steps.truncation.measure import TokenMeasure

from tests.each_case import each_case
from tests.steps.word_counter import Words

IMAGE = Media("image", ("x.png",))
"""Counts as eight tokens."""


def message(role: Role, *parts: Text | Reasoning | Media | ToolCall | ToolResult) -> Message:
    return Message(role, parts)


SYSTEM, USER = message("system", Text("s")), message("user", Text("u"))
ANSWER, CALL = message("assistant", Text("a")), message("assistant", ToolCall("f", "{}", "1"))
RESULT = message("tool", ToolResult((Text("r"),), "f", "1"))
TWO_CALLS = message("assistant", ToolCall("f", "{}", "1"), ToolCall("f", "{}", "2"))


@each_case(
    ("messages", "turns"),
    [
        ([], []),
        ([SYSTEM, USER, ANSWER, USER], [[1, 2], [3]]),
        ([ANSWER, USER], [[0], [1]]),
        ([USER, SYSTEM, ANSWER], [[0, 2]]),
        ([USER, CALL, USER, RESULT, USER], [[0, 1, 2, 3], [4]]),
        ([USER, TWO_CALLS, RESULT, USER, RESULT, USER], [[0, 1, 2, 3, 4], [5]]),
        ([USER, RESULT, USER], [[0, 1], [2]]),
    ],
)
def test_a_turn_begins_with_a_user_message_that_separates_no_call_from_its_result(
    messages: list[Message], turns: list[list[int]]
) -> None:
    assert split_turns(messages) == turns


@each_case(
    ("messages", "steps"),
    [
        ([USER, ANSWER, ANSWER], [[0], [1, 2]]),
        ([USER, CALL, RESULT, ANSWER], [[0], [1, 2], [3]]),
        ([USER, CALL, RESULT, USER, ANSWER], [[0], [1, 2], [3], [4]]),
        ([USER, CALL, USER, RESULT, ANSWER], [[0], [1, 2, 3], [4]]),
    ],
)
def test_a_step_is_the_messages_of_one_role_with_the_results_of_their_calls(
    messages: list[Message], steps: list[list[int]]
) -> None:
    assert split_steps(messages, range(len(messages))) == steps


def cutter(excess: int, *messages: Message) -> ConversationCutter:
    """A cutter of which the messages have so many tokens too many."""
    measure = TokenMeasure(Words(), {"image": 8})
    tokens = sum(map(measure.count_message, messages))
    made = ConversationCutter(messages, measure, Words(), tokens - excess)
    assert made.excess == excess
    return made


def test_what_is_dropped_is_no_longer_too_much() -> None:
    cut = cutter(5, message("user", Text("a b c")), ANSWER)
    cut.drop([0])
    assert cut.messages == [None, ANSWER]
    assert (cut.excess, cut.tokens([0, 1])) == (2, 1)


def test_results_are_shortened_one_after_the_other_until_nothing_is_too_much() -> None:
    results = [message("tool", ToolResult((Text("a b c d e f"),), "f", id_)) for id_ in ("1", "2")]
    cut = cutter(2, *results)
    cut.shorten_results([0, 1])
    assert cut.messages == [message("tool", ToolResult((Text("a... e f"),), "f", "1")), results[1]]
    assert cut.excess == 0


def test_a_result_loses_all_its_text_where_that_is_needed() -> None:
    cut = cutter(9, message("tool", Text("x"), ToolResult((Text("a b c"), IMAGE), "f", "1")))
    cut.shorten_results([0])
    assert cut.messages == [message("tool", Text("x"), ToolResult((Text("... c"),), "f", "1"))]
    cut = cutter(30, message("tool", ToolResult((Text("a b c"),), "f", "1")))
    cut.shorten_results([0])
    assert cut.messages == [message("tool", ToolResult((OMITTED,), "f", "1"))]


def test_a_message_of_which_only_reasoning_is_left_goes_with_it() -> None:
    cut = cutter(9, message("assistant", Reasoning("r r"), Text("t")), message("assistant", Reasoning("r")), ANSWER)
    for position in range(3):
        cut.drop_reasoning(position)
    assert cut.messages == [message("assistant", Text("t")), None, ANSWER]
    cut.drop_reasoning(1)
    assert cut.messages[1] is None


def test_a_shortened_text_keeps_one_token_and_its_media() -> None:
    cut = cutter(50, message("user", Text("a b c"), IMAGE, Text("d")))
    cut.shorten_text(0)
    assert cut.messages == [message("user", Text("a"), IMAGE)]


@each_case(
    ("excess", "parts"),
    [
        (0, (Text("a b c"), IMAGE)),
        (1, (Text("... c"), IMAGE)),
        (4, (Text("a b c"),)),
        (10, (Text("a"),)),
        (11, (OMITTED,)),
    ],
)
def test_media_go_before_the_last_of_the_text(excess: int, parts: tuple[Text | Media, ...]) -> None:
    cut = cutter(excess, message("user", Text("a b c"), IMAGE))
    cut.shorten_or_omit(0)
    assert cut.messages == [message("user", *parts)]


def test_a_message_of_media_alone_becomes_a_word() -> None:
    cut = cutter(8, message("user", IMAGE))
    cut.shorten_or_omit(0)
    assert cut.messages == [message("user", OMITTED)]


def test_a_message_that_was_dropped_stays_dropped() -> None:
    cut = cutter(3, USER, ANSWER)
    cut.drop([0])
    cut.shorten_or_omit(0)
    assert cut.messages == [None, ANSWER]
    assert cut.text_tokens(0) == 0
