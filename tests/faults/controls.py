"""Texts about function calling, which have no call although they have all that a call has."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from app.chat.template_tokens import TEXT_ENDS
from app.steps.tool_parsers.families import FAMILIES

from tests.steps.sample_calls import WRITTEN


class Control(NamedTuple):
    name: str
    text: str


_VALUES = {"city": "A b"}
_FORMS: dict[str, Callable[[str, str], str]] = {
    "a code block": lambda call, marker: f"It looks like this:\n\n```\n{call}\n```\n\nThe client runs it.",
    "a code block with a language": lambda call, marker: f"For example:\n```xml\n{call}\n```",
    "a code block of tildes": lambda call, marker: f"~~~text\n{call}\n~~~\nThat is all.",
    "a long fence": lambda call, marker: f"````md\n```\n{call}\n```\n{call}\n````",
    "inline code": lambda call, marker: f"The model writes `{_line(call)}` and waits.",
    "a quotation": lambda call, marker: f"> {_line(call)}\n\nThat was its answer.",
    "double quotes": lambda call, marker: f'It sent "{_line(call)}" as text.',
    "curly quotes": lambda call, marker: f"它输出“{_line(call)}”，然后等待。",
    "a sentence": lambda call, marker: f"The model writes {_line(call)} and waits.",
    "a list": lambda call, marker: f"1. The prompt\n2. {_line(call)}\n- {_line(call)}",
    "a table": lambda call, marker: f"| family | call |\n|---|---|\n| x | {_line(call)} |",
    "indented code": lambda call, marker: f"So:\n\n    {_line(call)}\n\nDone.",
    "an example": lambda call, marker: f"Here is an example:\n{call}",
    "a name that is not offered": lambda call, marker: _rename(call),
    "markers in prose": lambda call, marker: f"The opening is {marker} and a name follows; {marker} begins a call.",
    "a marker at the end": lambda call, marker: f"Every call begins with {marker}",
    "a question about a marker": lambda call, marker: f"What does {marker} mean? It begins a call.",
}


def _line(call: str) -> str:
    return " ".join(call.split())


def _rename(call: str) -> str:
    """Return the call, of a function that was not offered."""
    for before, after in (
        ('"name": "f"', '"name": "delete_all"'),
        ('name="f"', 'name="delete_all"'),
        ('tool="f"', 'tool="delete_all"'),
        ("<function=f>", "<function=delete_all>"),
        ("call:f{", "call:delete_all{"),
        ("▁sep｜>f\n", "▁sep｜>delete_all\n"),
        ("▁begin｜>f<", "▁begin｜>delete_all<"),
        ("[TOOL_CALLS]f[", "[TOOL_CALLS]delete_all["),
        ("<tool_call>f\n", "<tool_call>delete_all\n"),
        ("<ifm|tool_call>f\n", "<ifm|tool_call>delete_all\n"),
        ("<iquest_tool_call>f<", "<iquest_tool_call>delete_all<"),
        ("_name:plamo|>f<", "_name:plamo|>delete_all<"),
        ('"name":"f"', '"name":"delete_all"'),
        (":start|>f\n", ":start|>delete_all\n"),
        ("functions.f", "functions.delete_all"),
        ('"tool_name": "f"', '"tool_name": "delete_all"'),
        ('[{"f": ', '[{"delete_all": '),
        (":opensource>f<", ":opensource>delete_all<"),
        (":name|>f<", ":name|>delete_all<"),
        ("[f(", "[delete_all("),
    ):
        call = call.replace(before, after)
    return call


def _write_call(family: str) -> str:
    """Return a call without an end of its turn, which no text keeps at its end."""
    call = WRITTEN[family](_VALUES)
    for end in TEXT_ENDS:
        call = call.removesuffix(end)
    return call


def list_controls() -> Iterator[Control]:
    for family, row in FAMILIES.items():
        for form, write in _FORMS.items():
            marker = (*row.blocks, row.calls[0].opening)[0]
            yield Control(f"{family}: {form}", write(_write_call(family), marker))
