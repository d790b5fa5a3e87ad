"""A conversation into an OpenAI list: which messages are joined, where they stand, and which result answers what."""

import pytest
from app.chat.messages import Message, Text, ToolCall, ToolResult
from app.openai_messages.messages import write_openai_messages
from app.profiles import Profile

from tests.each_case import each_case
from tests.upstream.sample_histories import Json, answers, calls, refused, returns, sent, thinks, user

Q, R = user("q"), "reasoning_content"
TWICE_F = [calls("f", id="a"), calls("f", id="b")]
F_AND_G = [calls("f", id="a"), calls("g", id="b")]
ANSWERED = [calls("f", id="a"), returns("f", id="a")]


def shape(*messages: Json) -> list[str]:
    """One word a message: its role, and for assistants what it has (r, t, and a c for each call)."""
    return [_word(message) for message in sent(Q, *messages)[1:]]


def _word(message: Json) -> str:
    if message["role"] != "assistant":
        return str(message["role"])
    return "r" * (R in message) + "t" * bool(message["content"]) + "c" * len(message.get("tool_calls", ()))


@each_case(
    ("messages", "want"),
    [
        ([thinks("r"), answers("t")], ["rt"]),
        ([thinks("r"), answers("t"), calls("f"), returns("f")], ["rtc", "tool"]),
        ([answers("t"), thinks("r")], ["t", "r"]),
        ([answers("t"), answers("u")], ["t", "t"]),
        ([thinks("r"), thinks("s")], ["r", "r"]),
        ([answers("t", "1"), answers("u", "1")], ["t"]),
        ([thinks("r", "1"), thinks("s", "1"), answers("t", "1"), thinks("u", "1")], ["rt"]),
        ([thinks("r", "1"), answers("t", "2")], ["r", "t"]),
        ([thinks("r", "1"), answers("t")], ["rt"]),
        ([calls("f"), calls("g"), returns("f"), returns("g")], ["cc", "tool", "tool"]),
        ([calls("f"), answers("t"), returns("f")], ["tc", "tool"]),
        ([calls("f"), thinks("r"), answers("t"), calls("g"), returns("f"), returns("g")], ["rtcc", "tool", "tool"]),
        ([calls("f", turn="1"), answers("t", "2"), returns("f")], ["c", "tool", "t"]),
        ([calls("f", name="a"), answers("t", name="b"), returns("f")], ["c", "tool", "t"]),
        ([calls("f"), returns("f"), calls("g"), returns("g")], ["c", "tool", "c", "tool"]),
        ([answers("t"), user("u"), calls("f"), returns("f")], ["t", "user", "c", "tool"]),
        ([{**answers("t"), R: "r"}, calls("f"), returns("f")], ["rtc", "tool"]),
        ([answers("t"), {**answers("u"), R: "r"}], ["t", "rt"]),
    ],
)
def test_assistant_messages_of_one_turn_are_joined_and_no_others(messages: list[Json], want: list[str]) -> None:
    assert shape(*messages) == want


def test_joined_texts_and_thoughts_stand_on_lines_of_their_own() -> None:
    [_, message] = sent(Q, thinks("r", "1"), thinks("s", "1"), answers("t", "1"), answers("u", "1"))
    assert message == {"role": "assistant", R: "r\ns", "content": "t\nu"}


def test_calls_without_text_have_null_for_content() -> None:
    assert sent(Q, calls("f"), returns("f"))[1]["content"] is None


def test_a_thought_alone_is_dropped_where_thoughts_do_not_go_back() -> None:
    assert sent(Q, thinks("r"), replay_reasoning="none") == [Q]


@pytest.mark.parametrize(
    ("ids", "want"),
    [
        (["a", "b"], ["a", "b"]),
        (["1", "1"], ["1", "1_2"]),
        (["1", "1", "1"], ["1", "1_2", "1_3"]),
        (["1", "1", "1_2"], ["1", "1_2", "1_2_2"]),
        ([7, 7], ["7", "7_2"]),
    ],
)
def test_an_id_is_kept_and_a_repeated_one_numbered(ids: list[object], want: list[str]) -> None:
    steps = [step for id in ids for step in (calls("f", id=id), returns("f", id=id))]
    got = sent(Q, *steps)
    assert [call["id"] for message in got for call in message.get("tool_calls", ())] == want
    assert [message["tool_call_id"] for message in got if message["role"] == "tool"] == want


def test_an_id_repeated_in_one_turn_is_numbered_too() -> None:
    got = sent(Q, calls("f", id="1"), calls("g", id="1"), returns("f", "a", "1"), returns("g", "b", "1"))
    assert [(message["tool_call_id"], message["content"]) for message in got[2:]] == [("1", "a"), ("1_2", "b")]


def test_a_derived_id_follows_from_place_name_and_arguments_alone() -> None:
    def first(*messages: Json) -> str:
        return str(sent(*messages)[1]["tool_calls"][0]["id"])

    one = first(Q, calls("f", '{"a":1}'), returns("f"))
    assert one == first(Q, calls("f", '{"a":1}'), returns("f"), answers("t"), user("u"))
    assert one not in {
        first(Q, calls("f", '{"a":2}'), returns("f")),
        first(Q, calls("g", '{"a":1}'), returns("g")),
        sent(Q, answers("t"), user("u"), calls("f", '{"a":1}'), returns("f"))[3]["tool_calls"][0]["id"],
    }
    assert one.startswith("call_")
    assert len(one) == 29


@pytest.mark.parametrize(
    ("asked", "results", "want"),
    [
        # By id, whatever the order; results keep theirs.
        (TWICE_F, [returns("f", "2", "b"), returns("f", "1", "a")], [("b", "2"), ("a", "1")]),
        # By id, even against the name.
        (F_AND_G, [returns("g", "1", "a"), returns("f", "2", "b")], [("a", "1"), ("b", "2")]),
        # By name, in order.
        (F_AND_G, [returns("g", "2"), returns("f", "1")], [("b", "2"), ("a", "1")]),
        (TWICE_F, [returns("f", "1"), returns("f", "2")], [("a", "1"), ("b", "2")]),
        # An unknown id counts as none, but for the name.
        (F_AND_G, [returns("g", "2", "x"), returns("f", "1", "y")], [("b", "2"), ("a", "1")]),
        # No id and a name that was not called: the first that is open.
        (F_AND_G, [returns("h", "1"), returns("h", "2")], [("a", "1"), ("b", "2")]),
        # A result that names an id comes first, so that no other result takes its call.
        (TWICE_F, [returns("f", "2"), returns("f", "1", "a")], [("b", "2"), ("a", "1")]),
    ],
)
def test_a_result_answers_the_call_of_its_id_then_of_its_name_then_the_first(
    asked: list[Json], results: list[Json], want: list[tuple[str, str]]
) -> None:
    got = [(message["tool_call_id"], message["content"]) for message in sent(Q, *asked, *results)[2:]]
    assert got == want


def test_the_nearest_calls_are_answered_before_older_ones() -> None:
    got = sent(Q, calls("f", id="old"), user("u"), calls("f", id="new"), returns("f", "1"), returns("f", "2"))
    assert [(message.get("tool_call_id"), message["content"]) for message in got[1:]] == [
        (None, None),
        ("old", "2"),
        (None, "u"),
        (None, None),
        ("new", "1"),
    ]


@pytest.mark.parametrize(
    "between",
    [user("wait"), {"role": "system", "content": "s"}, answers("hm", name="other")],
    ids=["user", "system", "another agent"],
)
def test_what_stands_between_a_call_and_its_result_is_sent_after_it(between: Json) -> None:
    got = sent(Q, calls("f", id="a"), between, returns("f", id="a"), user("next"))
    assert [message["content"] for message in got] == ["q", None, "ok", between["content"], "next"]


def test_results_of_two_runs_follow_their_own_calls() -> None:
    got = sent(Q, calls("f", id="a"), calls("g", id="b"), returns("g", id="b"), user("u"), returns("f", id="a"))
    assert [message.get("tool_call_id", message["role"]) for message in got] == ["user", "assistant", "b", "a", "user"]


NOBODY = "tool result for function"
SECOND = "the call 'a' already has a result: remove one of the two"


@pytest.mark.parametrize(
    ("messages", "want"),
    [
        ([returns("f")], [("messages[1]", NOBODY)]),
        ([*ANSWERED, returns("f", id="a")], [("messages[3]", SECOND)]),
        ([*ANSWERED, returns("f")], [("messages[3]", NOBODY)]),
        ([calls("f", id="a"), returns("g", id="x"), returns("f", id="a")], [("messages[2]", NOBODY)]),
        ([calls("f"), answers("t")], [("messages[1].function_call", "the call of 'f' has no result")]),
        ([calls("f"), calls("g"), returns("g")], [("messages[1].function_call", "the call of 'f' has no result")]),
        (
            [returns("f"), *ANSWERED, returns("f", id="a"), calls("g"), user([{"image": "data:,"}])],
            [
                ("messages[1]", NOBODY),
                ("messages[4]", SECOND),
                ("messages[5].function_call", "the call of 'g' has no result"),
                ("messages[6].content[0].image", "this model does not accept image input"),
            ],
        ),
    ],
)
def test_what_cannot_be_paired_is_refused_with_every_place(messages: list[Json], want: list[tuple[str, str]]) -> None:
    got = refused(Q, *messages, media=())
    assert [path for path, _ in got] == [path for path, _ in want]
    for (_, text), (_, part) in zip(got, want, strict=True):
        assert part in text


def test_places_are_sorted_as_numbers() -> None:
    paths = [path for path, _ in refused(Q, *(calls("f") for _ in range(11)))]
    assert paths == [f"messages[{number}].function_call" for number in range(1, 12)]


def test_a_message_with_several_results_answers_several_calls() -> None:
    asked = Message("assistant", (ToolCall("f", "{}", "a"), ToolCall("g", "{}", "b")), path="messages[0]")
    answer = Message(
        "tool", (ToolResult((Text("1"),), "f", "a"), ToolResult((Text("2"),), "g", "b")), path="messages[1]"
    )
    got, violations = write_openai_messages([asked, answer], Profile(), "")
    assert not violations
    assert [message.get("tool_call_id") for message in got] == [None, "a", "b"]
