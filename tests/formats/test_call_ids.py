"""Which call a result without an id answers."""

from app.chat.messages import Message, Part, Text, ToolCall, ToolResult
from app.formats.call_ids import fill_ids

from tests.each_case import each_case

F, G = ToolCall("f", "{}", "1"), ToolCall("g", "{}", "2")


def result(id_: str | None = None, name: str | None = None) -> ToolResult:
    return ToolResult((Text("r"),), name, id_)


@each_case(
    ("parts", "answered"),
    [
        ([F, G, result(), result()], ["1", "2"]),
        ([F, G, result("2"), result()], ["2", "1"]),
        ([F, G, result(name="g"), result()], ["2", "1"]),
        ([F, result("1"), result("1")], ["1", "1"]),
        ([F, result(name="f"), result(name="f"), result()], ["1", "call_", "call_"]),
        ([result("9")], ["9"]),
    ],
)
def test_a_result_answers_the_first_call_without_a_result(parts: list[Part], answered: list[str]) -> None:
    shown = fill_ids([Message("assistant" if isinstance(part, ToolCall) else "tool", (part,)) for part in parts])
    found = [part.id for message in shown for part in message.parts if isinstance(part, ToolResult)]
    assert [one if one in ("1", "2", "9") else (one or "")[:5] for one in found] == answered
