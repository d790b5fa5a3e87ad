"""Custom tools of OpenAI's APIs as functions, the only tools that a model server is offered.

A call of a custom tool has one text instead of arguments. The function has it as its only parameter, `input`, and its
description describes the grammar of the text in words.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec


def make_function(description: str | None, format_: Any) -> dict[str, Any]:
    """Return the function of a custom tool, without its name. `format_` is that of chat completions or of Responses."""
    texts = [description] if description else []
    grammar = _find_grammar(format_)
    if grammar is not None:
        head = f"The input must match this {grammar.get('syntax', '')} grammar:"
        texts.append(f"{head}\n{grammar.get('definition', '')}")
    function: dict[str, Any] = {"description": "\n\n".join(texts)} if texts else {}
    function["parameters"] = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return function


def _find_grammar(format_: Any) -> Mapping[str, Any] | None:
    """Return the object with `syntax` and `definition`: chat completions has it one level deeper than Responses."""
    if not isinstance(format_, dict) or format_.get("type") != "grammar":
        return None
    inner = format_.get("grammar")
    return inner if isinstance(inner, dict) else format_


def wrap_input(text: str) -> str:
    """Return the arguments for the text of a call."""
    return json.dumps({"input": text}, ensure_ascii=False)


def unwrap_input(arguments: str) -> str:
    """Return the text of the arguments of a call: `input`, or the only text under another name, with which models that
    know the tool from elsewhere write it (`patch`, or a command line of which it is the last word: farion1231/cc-switch
    PR 3669). Arguments of any other form are returned as they are."""
    try:
        found = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return arguments
    value = found.get("input", next(iter(found.values())) if len(found) == 1 else None)
    if isinstance(value, list) and len(value) == _NAME_AND_TEXT and all(isinstance(word, str) for word in value):
        value = value[-1]
    return value if isinstance(value, str) else arguments


_NAME_AND_TEXT = 2
"""The words of a command line that calls the tool."""
