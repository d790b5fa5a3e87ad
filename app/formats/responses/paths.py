"""JSON paths in the caller's own request, for requests of `POST /v1/responses`.

The endpoint parses its items as `messages`, after the instructions and the stored items of an earlier response, and its
tools as `functions`. Errors and warnings of the gateway then name places that the caller does not know. What names
places in the caller's body already has none of these paths, and stays as it is.
"""

import re
from typing import Any

from app.formats.base import ResponsesOptions

_PLACE = re.compile(
    r"\b(messages|functions)\[(\d+)\](?:\.function)?"
    r"|^(messages|functions)(?=:|$)"
    r"|\bgenerate_cfg\.(?:extra_body(?:\.|(?=\[))|(\w+)(?:(?<=response_format)\.json_schema)?)"
)
PARAM_NAMES = {
    "function_choice": "tool_choice",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
"""Fields of the body by the parameters of `generate_cfg` that they become."""
_LISTS = {"messages": "input", "functions": "tools"}


def rename_paths(text: str, options: ResponsesOptions) -> str:
    """Rewrite the paths in a path, a warning or an error message."""
    return _PLACE.sub(lambda match: _rename(match, options), text)


def rename_error_paths(error: dict[str, Any], options: ResponsesOptions) -> dict[str, Any]:
    """Rewrite the paths in an error. The words of a model server stay as they are: its paths are those of the request
    that it was sent."""
    if "upstream" in error:
        return error
    renamed: dict[str, Any] = {key: rename_paths(error[key], options) for key in ("message", "param") if error.get(key)}
    if "violations" in error:
        renamed["violations"] = [
            violation | {"param": violation["param"] and rename_paths(violation["param"], options)}
            for violation in error["violations"]
        ]
    return error | renamed


def _rename(match: "re.Match[str]", options: ResponsesOptions) -> str:
    indexed, number, bare, param = match.groups()
    if indexed == "messages":
        return _rename_item(int(number), options)
    if indexed is not None:
        place = int(number)
        return options.tool_paths[place] if place < len(options.tool_paths) else match[0]
    if bare is not None:
        return _LISTS[bare]
    if param is None:
        return ""
    return options.param_names.get(param) or PARAM_NAMES.get(param, param)


def _rename_item(number: int, options: ResponsesOptions) -> str:
    if number >= options.first_item:
        return f"input[{number - options.first_item}]"
    return "instructions" if options.has_instructions and number == 0 else "previous_response_id"
