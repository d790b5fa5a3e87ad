"""JSON paths in the caller's own request, for requests of `POST /v1/responses`.

The endpoint parses its items as `messages`, after the instructions and the stored items of an earlier response, and its
tools as functions. Errors and warnings then name places that the caller does not know.
"""

import re

from app.formats.base import ResponsesOptions

_PLACE = re.compile(r"\b(messages|tools)(?:\[(\d+)\](\.function)?)?|\bgenerate_cfg\.(?:extra_body(?:\.|(?=\[)))?")
_PARAMS = {
    "function_choice": "tool_choice",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}


def rename_paths(text: str, options: ResponsesOptions) -> str:
    """Rewrite the paths in a path, a warning or an error message."""
    return _PARAM.sub(lambda match: _PARAMS[match[1]], _PLACE.sub(lambda match: _rename(match, options), text))


_PARAM = re.compile(rf"(?<![\w.\"'`])({'|'.join(_PARAMS)})(?![\w\"'])")


def _rename(match: "re.Match[str]", options: ResponsesOptions) -> str:
    if match[1] is None:
        return ""
    if match[1] == "messages":
        return _rename_item(match, options.first_item)
    number = int(match[2]) if match[2] else -1
    return options.tool_paths[number] if 0 <= number < len(options.tool_paths) else match[0]


def _rename_item(match: "re.Match[str]", first_item: int) -> str:
    if match[2] is None:
        return "input"
    number = int(match[2]) - first_item
    if number >= 0:
        return f"input[{number}]"
    return "instructions" if first_item == 1 else "previous_response_id"
