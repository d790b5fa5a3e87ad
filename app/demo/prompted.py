"""Functions that are explained in the prompt: the demonstration model knows the `nous` prompt, as Qwen's models do.

A request with them is read as if it had been asked with `tools`, and calls are said as text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.demo.request import Request, Tool, Turn

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_FORCED = re.compile(r"You must call (?:the function (.+?)|at least one of the functions) in this reply")
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def understood(request: Request) -> Request | None:
    """None where the prompt explains no functions."""
    systems = (turn.text for turn in request.turns if turn.role == "system")
    found = next(filter(None, map(_TOOLS.search, systems)), None)
    if request.tools or found is None:
        return None
    values = (_object(line).get("function") for line in found[1].splitlines())
    tools = tuple(_tool(value) for value in values if isinstance(value, dict))
    forced = _FORCED.search(found.string, found.end())
    named = forced[1] if forced else None
    choice = "required" if forced else "auto"
    turns = tuple(_turns(request.turns))
    return replace(request, tools=tools, tool_choice=choice, named_tool=named, turns=turns)


def said(content: str, calls: Sequence[tuple[str, str]]) -> str:
    """What is said, and the calls behind it."""
    blocks = (f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {text}}}\n</tool_call>' for name, text in calls)
    return "\n".join([content, *blocks])


def _tool(value: dict[str, Any]) -> Tool:
    parameters = value.get("parameters")
    known = parameters if isinstance(parameters, dict) else {}
    return Tool(str(value.get("name", "")), str(value.get("description", "")), known)


def _turns(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Calls and results out of the text; results answer the calls before them in order."""
    waiting: list[tuple[str, str]] = []
    for turn in turns:
        if turn.role == "assistant":
            names = (str(_object(text).get("name", "")) for text in _CALL.findall(turn.text))
            waiting = [(f"{place}", name) for place, name in enumerate(names)]
            yield replace(turn, calls=tuple(waiting))
        elif turn.role == "user" and (results := _RESULT.findall(turn.text)):
            known = [id for id, _ in waiting] + [""] * len(results)
            yield from (Turn("tool", text, call_id=id) for text, id in zip(results, known, strict=False))
        else:
            yield turn


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
