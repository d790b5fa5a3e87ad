"""Chooses which of the offered functions to call for a question, and how often."""

import json
import re

from app.demo.arguments import (
    IGNORED_WORDS,
    Details,
    fill_schema,
    find_details,
    is_name_parameter,
    read_properties,
    read_required,
)
from app.demo.request import DemoFunction, DemoRequest

_WORD = re.compile(r"[^\W\d_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SMALL_TALK = re.compile(
    r"\W*(?:(?:hello|hi|hey|thanks|thank you|good (?:morning|evening)|bye)\b(?:\W+\w+){0,2}|(?:who|how|what) are you"
    r"|what can you do)?\W*",
    re.IGNORECASE,
)


def choose_calls(request: DemoRequest, text: str) -> list[tuple[str, str]]:
    """Name and JSON arguments of each call, in order. `text` is the question, or the results that came last."""
    if request.tool_choice == "none" or not request.functions:
        return []
    if request.messages[-1].is_result:
        return [(tool.name, _write_arguments(tool, Details(text))) for tool in _choose_next(request)]
    details = find_details(text)
    tools = _choose_tools(request, text)
    if len(tools) == 1 and details.listed and _takes_one_name(tools[0]):
        calls = [(tools[0].name, _write_arguments(tools[0], details.only(name))) for name in details.listed]
    else:
        calls = [(tool.name, _write_arguments(tool, details)) for tool in tools]
    return calls if request.parallel_tool_calls else calls[:1]


def _choose_tools(request: DemoRequest, question: str) -> list[DemoFunction]:
    asked = _find_terms(question)
    related = [tool for tool in request.functions if _find_terms(tool.name) & asked]
    if chosen := _find_demanded(request) or related:
        return chosen
    only_one = len(request.functions) == 1 and not _SMALL_TALK.fullmatch(question[:100])
    return request.functions[:1] if only_one or request.tool_choice == "required" else []


def _choose_next(request: DemoRequest) -> list[DemoFunction]:
    """After results, where a call is demanded: one not called yet (`final_answer` of an agent), or else the last."""
    said = " ".join(message.text for message in request.messages if message.role == "assistant")
    called = {call.function.name for message in request.messages for call in message.tool_calls}
    called |= set(re.findall(r"""['"](\w+)['"]""", said))
    uncalled = [tool for tool in request.functions if tool.name not in called]
    others = (uncalled or request.functions[-1:])[:1] if request.tool_choice == "required" else []
    return _find_demanded(request) or others


def _find_demanded(request: DemoRequest) -> list[DemoFunction]:
    return [tool for tool in request.functions if tool.name == request.demanded_name][:1]


def _find_terms(text: str) -> frozenset[str]:
    """Words that say what a text is about, without case and plural."""
    words = (word for word in _WORD.findall(_HUMP.sub(" ", text[:2000]).casefold()) if word not in IGNORED_WORDS)
    singular = (word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in words)
    return frozenset(word for word in singular if len(word) > 1)


def _takes_one_name(tool: DemoFunction) -> bool:
    """Whether several names in a question ask for as many calls."""
    properties = read_properties(tool.parameters)
    wanted = [key for key in read_required(tool.parameters) if key in properties]
    return sum(is_name_parameter(key, properties[key]) for key in wanted) == 1


def _write_arguments(tool: DemoFunction, details: Details) -> str:
    value = fill_schema(tool.parameters, details) if tool.parameters else {}
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)
