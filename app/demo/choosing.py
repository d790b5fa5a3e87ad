"""Chooses which of the offered functions to call for a question, and how often."""

import json
from collections.abc import Sequence
from typing import Any

from app.demo.clues import Clues, find
from app.demo.filler import Filler
from app.demo.names import is_free_text
from app.demo.request import Request, Tool
from app.demo.schema import resolve
from app.demo.words import is_small_talk, terms


def calls(request: Request, question: str, language: str) -> list[tuple[str, str]]:
    """Name and JSON arguments of each call, in order."""
    if request.tool_choice == "none":
        return []
    clues = find(question)
    chosen = _chosen(request, question)
    alike = clues.alike if len(chosen) == 1 and _takes_one_name(chosen[0]) else ()
    if alike:
        made = [(chosen[0].name, _arguments(chosen[0], _only(clues, name), language)) for name in alike]
    else:
        made = [(tool.name, _arguments(tool, clues, language)) for tool in chosen]
    return made if request.parallel else made[:1]


def _chosen(request: Request, question: str) -> list[Tool]:
    if request.named_tool is not None:
        return [tool for tool in request.tools if tool.name == request.named_tool][:1]
    related = _related(request.tools, question)
    if related or not request.tools:
        return related
    alone = len(request.tools) == 1 and not is_small_talk(question)
    return [request.tools[0]] if alone or request.tool_choice == "required" else []


def _related(tools: Sequence[Tool], question: str) -> list[Tool]:
    """Tools whose name the question speaks of, or else the one whose description comes nearest."""
    asked = terms(question)
    by_name = [(tool, terms(tool.name) & asked) for tool in tools]
    named = _fewest([pair for pair in by_name if pair[1]])
    if named:
        return named
    near = [(len(terms(_described(tool)) & asked), tool) for tool in tools]
    most = max((count for count, _ in near), default=0)
    return [tool for count, tool in near if count == most][:1] if most > 1 else []


def _described(tool: Tool) -> str:
    properties = tool.parameters.get("properties")
    return " ".join([tool.description, *(properties if isinstance(properties, dict) else ())])


def _fewest(pairs: list[tuple[Tool, frozenset[str]]]) -> list[Tool]:
    """Without tools that match only what another matches too."""
    kept: list[tuple[Tool, frozenset[str]]] = []
    for tool, words in sorted(pairs, key=lambda pair: (-len(pair[1]), len(terms(pair[0].name)))):
        if not any(words <= other for _, other in kept):
            kept.append((tool, words))
    names = {tool.name for tool, _ in kept}
    return [tool for tool, _ in pairs if tool.name in names]


def _takes_one_name(tool: Tool) -> bool:
    """Whether several names in a question ask for as many calls."""
    schema = resolve(tool.parameters, tool.parameters)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return False
    required = schema.get("required")
    listed = [key for key in required if key in properties] if isinstance(required, list) else []
    free = [key for key in listed or properties if is_free_text(key, resolve(properties[key], tool.parameters))]
    return len(free) == 1 or (bool(free) and not listed)


def _only(clues: Clues, name: str) -> Clues:
    return Clues(clues.question, (name,), (), clues.quotations and (name,), clues.numbers)


def _arguments(tool: Tool, clues: Clues, language: str) -> str:
    value: Any = Filler(tool.parameters, clues, language).fill() if tool.parameters else {}
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)
