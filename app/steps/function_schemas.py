"""Gives functions parameters that the model's server takes: some refuse alternatives at the top of a schema, or a
schema without a type."""

import operator
from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Tool
from app.openai_messages.tool_schemas import (
    add_types,
    complete_function,
    describes_no_object,
    has_alternatives,
    merge_alternatives,
)
from app.profiles import Profile


def warn_of_other_parameters(tools: Sequence[Tool]) -> list[str]:
    """Return a warning if the parameters of functions are no objects, which `complete_function` leaves out."""
    given = [(tool.name, tool.schema.get("parameters")) for tool in tools]
    others = [one for one in given if not isinstance(one[1], dict) or one[1].get("type") != "object"]
    names = [name for name, parameters in others if describes_no_object(parameters)]
    text = "parameters that are no object were not sent, because arguments always are one"
    return [f"{text}: {', '.join(names)}"] if names else []


def merge_function_alternatives(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    """Return (the request with the alternatives of each function's parameters as one object, warnings)."""
    if profile.parameter_alternatives or not profile.native_tools:
        return request, []
    names = [tool.name for tool in request.tools if has_alternatives(tool.schema.get("parameters"))]
    if not names:
        return request, []
    text = "this model's server takes no anyOf, oneOf or allOf at the top of parameters, so all properties were offered"
    return replace(request, tools=tuple(map(_merge, request.tools))), [f"{text}: {', '.join(names)}"]


def _merge(tool: Tool) -> Tool:
    parameters = tool.schema.get("parameters")
    if not has_alternatives(parameters):
        return tool
    return replace(tool, schema={**tool.schema, "parameters": merge_alternatives(parameters)})


def type_function_parameters(request: ChatRequest, profile: Profile) -> ChatRequest:
    """Return the request with a type in each schema of the functions' parameters, if the server wants them."""
    if not profile.typed_parameters or not profile.native_tools:
        return request
    tools = tuple(map(_add_types, request.tools))
    return request if all(map(operator.is_, tools, request.tools)) else replace(request, tools=tools)


def _add_types(tool: Tool) -> Tool:
    complete = complete_function(tool.schema, tool.encoded)
    parameters = add_types(complete["parameters"])
    return (
        tool if parameters == complete["parameters"] else replace(tool, schema={**complete, "parameters": parameters})
    )
