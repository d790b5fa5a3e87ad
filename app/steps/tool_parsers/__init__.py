"""Parses tool calls that a server leaves in the content of a reply, as the model's family writes them, and cleans the
calls that it sends apart."""

from collections.abc import Callable, Mapping, Sequence

from app.chat.events import ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.families import FAMILIES as ROWS
from app.steps.tool_parsers.family import Grammar, Reader
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage
from app.steps.tool_parsers.structured_calls import StructuredCalls
from app.steps.tool_parsers.warnings import Warnings

AUTO = "auto"
"""All families are read, with `ParseState.strict`."""
FAMILIES: Mapping[str, Grammar] = {name: Reader([family]) for name, family in ROWS.items()}
_ALL = Reader(tuple(ROWS.values()))
_ALWAYS = frozenset({"harmony", "inkling"})
"""Families whose content is parsed even without tools, because it has more than calls: harmony's channels, Inkling's
messages."""


def tool_parser_stage(
    family: str | None, tools: Sequence[Tool], reply_id: str, report: Callable[[str], None] | None = None
) -> CallStage:
    """Return the stage for a model of this family. None: no calls are read from texts. `report` is called with the
    family that was found, where none is configured."""
    grammar: Grammar = _read_text
    if family is not None and (tools or family in _ALWAYS):
        grammar = _ALL if family == AUTO else FAMILIES[family]
    structured = _clean if tools else None
    return CallStage(reply_id, tools, grammar, strict=family == AUTO, structured=structured, report=report)


def _read_text(r: ParseState) -> Steps:
    """Read a reply without calls."""
    yield from r.read_prose()


def _clean(tools: Mapping[str, Tool], warnings: Warnings) -> StructuredCalls:
    return StructuredCalls(tools, lambda text: _read_one_call(text, tuple(tools.values())), warnings)


def _read_one_call(text: str, tools: Sequence[Tool]) -> tuple[str, str] | None:
    """Return the name and the arguments of the only call in a text, None if it has none or several."""
    state = ParseState("", tools, strict=True)
    state.text, state.ended = text, True
    next(_ALL(state))
    calls = [event for event in state.out if type(event) is ToolCallDelta]
    names = [event.name for event in calls if event.name]
    return (names[0], "".join(event.arguments for event in calls)) if len(names) == 1 else None
