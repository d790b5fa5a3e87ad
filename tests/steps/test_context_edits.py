from collections.abc import Sequence
from typing import Any

from app.chat.context_edits import ClearThinking, ClearToolUses, Compact, ContextEdit
from app.chat.messages import ChatRequest, Message, Reasoning, Text, ToolCall, ToolResult
from app.steps.context_edits import apply_edits, explain_unapplied, split_last_message

from tests.each_case import each_case

LONG = "x" * 400  # 100 tokens


def use(number: int, name: str = "read", text: str = LONG) -> tuple[Message, Message]:
    call = ToolCall(name, f'{{"n": {number}}}', f"t{number}")
    return Message("assistant", (call,)), Message("tool", (ToolResult((Text(text),), None, f"t{number}"),))


def conversation(count: int, **fields: Any) -> tuple[Message, ...]:
    uses = [message for number in range(1, count + 1) for message in use(number, **fields)]
    return (Message("user", (Text("go"),)), *uses)


def edit(messages: Sequence[Message], *edits: ContextEdit) -> tuple[ChatRequest, list[tuple[int, int]]]:
    edited, applied, compact = apply_edits(ChatRequest("m", tuple(messages), edits=edits))
    assert compact is None
    return edited, [(one.count, one.tokens) for one in applied]


def list_results(request: ChatRequest) -> str:
    """Write `c` for each result that is cleared, and `-` for others."""
    parts = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
    return "".join("c" if part.content == (Text("[cleared]"),) else "-" for part in parts)


def list_arguments(request: ChatRequest) -> list[str]:
    parts = [part for message in request.messages for part in message.parts if isinstance(part, ToolCall)]
    return [part.arguments for part in parts]


@each_case(
    ("count", "given", "cleared"),
    [
        (5, ClearToolUses(above=1000), "-----"),
        (5, ClearToolUses(above=400), "cc---"),
        (5, ClearToolUses(above=400, keep=0), "cccc-"),  # at the fourth; then it is short enough
        (5, ClearToolUses(above=50, keep=5), "-----"),
        (5, ClearToolUses(above=50, keep=9), "-----"),
        (5, ClearToolUses(above=50, keep=0), "ccccc"),
        (5, ClearToolUses("tool_uses", 4, keep=1), "cccc-"),
        (5, ClearToolUses("tool_uses", 5, keep=1), "-----"),
        (5, ClearToolUses(above=400, keep=3, at_least=300), "-----"),
        (6, ClearToolUses(above=400, keep=3, at_least=280), "ccc---"),
        (5, ClearToolUses(above=50, keep=0, exclude=frozenset(["read"])), "-----"),
    ],
)
def test_the_oldest_results_are_cleared(count: int, given: ClearToolUses, cleared: str) -> None:
    assert list_results(edit(conversation(count), given)[0]) == cleared


def test_what_is_cleared_stays_so_until_the_conversation_is_too_long_again() -> None:
    cleared = [list_results(edit(conversation(count), ClearToolUses(above=450, keep=1))[0]) for count in range(1, 10)]
    assert cleared == ["-", "--", "---", "----", "cccc-", "cccc--", "cccc---", "ccccccc-", "ccccccc--"]


def test_results_of_one_turn_are_cleared_at_its_end() -> None:
    calls = Message("assistant", tuple(ToolCall("read", "{}", f"t{number}") for number in range(4)))
    results = [Message("tool", (ToolResult((Text(LONG),), None, f"t{number}"),)) for number in range(4)]
    edited, _ = edit([Message("user", (Text("go"),)), calls, *results], ClearToolUses(above=150, keep=1))
    assert list_results(edited) == "ccc-"


def test_the_tokens_that_are_saved_count_results_and_arguments() -> None:
    assert edit(conversation(3), ClearToolUses(above=50, keep=1))[1] == [(2, 195)]
    long = [*use(1, text=LONG), *use(2, name="write")]
    edited, applied = edit(long, ClearToolUses(above=50, keep=0, inputs=frozenset(["write"])))
    assert list_arguments(edited) == ['{"n": 1}', "{}"]
    assert applied == [(2, 197)]
    assert list_arguments(edit(long, ClearToolUses(above=50, keep=0, inputs=True))[0]) == ["{}", "{}"]


def test_results_of_excluded_tools_and_without_a_call_keep_their_place() -> None:
    orphan = Message("tool", (ToolResult((Text(LONG),), "read", "none"),))
    messages = [*use(1), *use(2, name="memory"), orphan, *use(3)]
    edited, applied = edit(messages, ClearToolUses(above=50, keep=1, exclude=frozenset(["memory"])))
    assert (list_results(edited), applied[0][0]) == ("c-c-", 2)


def test_a_request_that_nothing_is_cleared_of_is_the_same_and_says_why() -> None:
    edits = (ClearToolUses(path="edits[0]"), ClearThinking())
    request = ChatRequest("m", conversation(2), edits=edits)
    edited, applied, compact = apply_edits(request)
    assert (edited is request, applied, compact) == (True, (), None)
    assert explain_unapplied(request, applied) == [
        "edits[0] has cleared nothing: the conversation has about 226 tokens"
    ]
    both = ChatRequest("m", conversation(2), edits=(ClearToolUses(above=1, keep=0), ClearThinking()))
    assert explain_unapplied(both, apply_edits(both)[1]) == []


def think(text: str, *more: Any, **extra: Any) -> Message:
    return Message("assistant", (Reasoning(text), *more), extra=extra)


def list_thoughts(request: ChatRequest) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Reasoning)]


@each_case(
    ("keep", "thoughts"),
    [(1, ["4"]), (2, ["2", "3", "4"]), (3, ["1", "2", "3", "4"]), (None, ["1", "2", "3", "4"])],
)
def test_the_reasoning_of_old_turns_is_left_out(keep: int | None, thoughts: list[str]) -> None:
    user = Message("user", (Text("go"),))
    call, result = use(1)
    messages = [user, think("1", Text("a")), user, think("2", *call.parts), result, think("3", Text("b")), user, user]
    edited, _ = edit([*messages, think("4", Text("c"))], ClearThinking(keep))
    assert list_thoughts(edited) == thoughts


def test_a_message_of_reasoning_alone_goes_and_opaque_fields_of_others_stay() -> None:
    user = Message("user", (Text("go"),))
    texts = Message("assistant", (Text("a"),), extra={"reasoning_details": [1], "extra_content": 2})
    edited, applied = edit([think("1"), texts, user, think("2")], ClearThinking())
    assert [message.extra for message in edited.messages] == [{"extra_content": 2}, {}, {}]
    assert (list_thoughts(edited), applied[0][0]) == (["2"], 1)


def test_edits_follow_one_another() -> None:
    messages = [think("x" * 4000), Message("user", (Text("go"),)), *conversation(5)[1:], think("y")]
    both = ClearToolUses(above=700, keep=0)
    assert [count for count, _ in edit(messages, ClearThinking(), both)[1]] == [1]
    assert [count for count, _ in edit(messages, both, ClearThinking())[1]] == [5, 1]


def test_a_conversation_is_summarized_above_a_bound_behind_the_edits_before_it() -> None:
    clear, compact = ClearToolUses(above=50, keep=0), Compact(above=300, path="edits[1]")
    for edits, count, found in (
        ((compact,), 2, None),
        ((compact,), 5, compact),
        ((clear, compact), 5, None),
        ((compact, clear), 5, compact),
    ):
        edited, applied, wanted = apply_edits(ChatRequest("m", conversation(count), edits=edits))
        assert wanted is found
        assert (list_results(edited), len(applied)) == (("ccccc", 1) if edits[0] is clear else ("-" * count, 0))


@each_case(
    ("roles", "system", "last"),
    [
        ("sua u", "s", "u"),
        ("suatat", "s", "at"),
        ("uatatu", "", "atu"),
        ("usau", "s", "u"),
        ("uauu", "", "uu"),
        ("su", "", ""),
        ("u", "", ""),
        ("at", "", ""),
        ("ua", "", ""),
        ("", "", ""),
    ],
)
def test_the_last_message_has_the_calls_of_its_results(roles: str, system: str, last: str) -> None:
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    messages = [Message(names[role], (Text("x"),)) for role in roles.replace(" ", "")]  # type: ignore[arg-type]
    found = split_last_message(messages)
    assert tuple("".join(message.role[0] for message in part) for part in found) == (system, last)


def test_a_conversation_without_anything_to_summarize_is_warned_of() -> None:
    request = ChatRequest("m", (Message("user", (Text(LONG),)),), edits=(Compact(above=50, path="edits[0]"),))
    edited, applied, compact = apply_edits(request)
    assert (edited is request, compact) == (True, None)
    assert [text.partition(" has ")[0] for text in explain_unapplied(request, applied)] == ["edits[0]"]
    assert explain_unapplied(ChatRequest("m", conversation(5), edits=request.edits), ()) == []
