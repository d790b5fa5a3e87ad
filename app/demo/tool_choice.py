"""Chooses which of the offered functions to call for a question, and how often."""

import json
import re

from msgspec.structs import replace

from app.demo.arguments import IGNORED_WORDS, Details, fill_schema, find_details, is_name_parameter, read_required
from app.demo.request import DemoFunction, DemoRequest, DemoTool

_WORD = re.compile(r"[^\W\d_]{2,}")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SMALL_TALK = re.compile(r"\W*((hello|hi|hey|thanks|thank you|bye|who are you|what can you do)\b.{0,20})?", re.I)


def choose_calls(request: DemoRequest, text: str) -> list[tuple[str, str]]:
    """Name and JSON arguments of each call, in order. `text` is the question, or the results that came last."""
    tools = [] if request.tool_choice == "none" else _choose_tools(request, text)
    details = Details(text) if request.messages[-1].is_result else find_details(text)
    if len(tools) == 1 and details.listed and _takes_one_name(tools[0]):
        each_name = [replace(details, names=(name,)) for name in details.listed]
        calls = [(tools[0].name, _write_arguments(tools[0], one)) for one in each_name]
    else:
        calls = [(tool.name, _write_arguments(tool, details)) for tool in tools]
    return calls if request.parallel_tool_calls else calls[:1]


def _choose_tools(request: DemoRequest, text: str) -> list[DemoFunction]:
    functions, choice = request.functions, request.tool_choice
    if isinstance(choice, DemoTool):
        return [function for function in functions if function.name == choice.function.name][:1]
    if request.messages[-1].is_result:  # the last function is the `final_answer` of agents
        return functions[-1:] if choice == "required" else []
    asked = _find_words(text)
    if related := [function for function in functions if _find_words(function.name) & asked]:
        return related
    only_one = len(functions) == 1 and not _SMALL_TALK.fullmatch(text)
    return functions[:1] if only_one or choice == "required" else []


def _find_words(text: str) -> frozenset[str]:
    """Words that say what a text is about, without case and plural."""
    words = (word for word in _WORD.findall(_HUMP.sub(" ", text[:2000]).casefold()) if word not in IGNORED_WORDS)
    return frozenset(word.removesuffix("s") for word in words)


def _takes_one_name(function: DemoFunction) -> bool:
    """Whether several names in a question ask for as many calls."""
    return sum(is_name_parameter(*parameter) for parameter in read_required(function.parameters).items()) == 1


def _write_arguments(function: DemoFunction, details: Details) -> str:
    value = fill_schema(function.parameters, details) if function.parameters else {}
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)
