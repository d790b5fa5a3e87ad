"""Put the document together: the routes that FastAPI knows, and the endpoints that are served without FastAPI."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.convert import Conversion, Converted
from app.api.openapi import chat, completions, frameworks, messages, responses
from app.api.openapi.components import Components, walk
from app.api.upstream_check import UpstreamCheck
from app.formats import FORMATS
from app.formats import openapi as errors
from app.formats.anthropic.body import CountTokensRequest, MessagesRequest
from app.formats.chat_body import ChatRequestBody
from app.formats.openapi import Json, json_content, ref

_PREFIXES = {
    "qwen": "Qwen",
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "responses": "Responses",
    "autogen": "Autogen",
    "agentscope": "AgentScope",
    "agentscope2": "AgentScope2",
}
"""Before the names of a format's models: several formats have a `FunctionCall`."""
_SECURITY_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key of the gateway."},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same, as Anthropic's."},
    "api-key": {"type": "apiKey", "in": "header", "name": "api-key", "description": "The same, as Azure's."},
}
_TAGS = {
    "chat": "Conversations in any format, and the replies that can be read again",
    "openai": "For clients of OpenAI's chat completions",
    "anthropic": "For clients of Anthropic's Messages",
    "responses": "For clients of OpenAI's Responses",
    "convert": "Translation without a model",
    "models": "The models that requests can name",
    "usage": "Tokens and cost",
    "cache": "Stored replies, for administrators",
    "upstreams": "The model servers, for administrators",
    "health": "For load balancers and monitoring",
}
_NO_KEY_NEEDED = ("/healthz", "/readyz")
_CONVERSION_EXAMPLES: list[Json] = [
    {"from": "openai", "to": "qwen", "messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
]


def write_document(app: FastAPI) -> Json:
    tags = [{"name": name, "description": text} for name, text in _TAGS.items()]
    document = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary, tags=tags)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own, which the gateway never sends
        schemas.pop(name, None)
    _add_components(Components(schemas))
    paths = document["paths"]
    paths["/v1/convert"]["post"] |= _describe_convert()
    paths |= chat.describe_paths() | messages.describe_paths() | responses.describe_paths()
    paths["/v1/chat/completions"] = completions.describe_path()
    document["servers"] = [{"url": "."}]  # relative to the document, so that a proxy may add a prefix to both
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    document["security"] = [{}, *({name: []} for name in _SECURITY_SCHEMES)]
    for path, operations in paths.items():
        for operation in operations.values():
            _finish(path, operation)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _finish(path: str, operation: Json) -> None:
    """Add what every operation has: the errors of keys, origins and hosts, and no titles."""
    found = operation["responses"]
    if "HTTPValidationError" in str(found.get("422")):
        del found["422"]
    form = next((one["content"] for status, one in found.items() if status[0] == "4"), json_content("ErrorBody"))
    for status, text in errors.select(*errors.COMMON).items():
        if status != "401" or path not in _NO_KEY_NEEDED:
            found.setdefault(status, {"description": text, "content": form})
    operation["responses"] = dict(sorted(found.items()))
    if path in _NO_KEY_NEEDED:
        operation["security"] = []
    for parameter in operation.get("parameters", ()):
        for schema in walk(parameter["schema"]):
            schema.pop("title", None)


def _add_components(components: Components) -> None:
    names: dict[str, dict[str, str]] = {}
    items: dict[str, str] = {}
    for name, format_ in FORMATS.items():
        items[name], names[name] = components.add_format(_PREFIXES[name], format_.schema)
    plain: list[Any] = [*errors.MODELS, chat.FunctionTool, chat.CustomTool, chat.ReplyInProgress, chat.ReplyCancelled]
    plain += [completions.ChatCompletion, messages.AnthropicReply, messages.CountedTokens]
    plain += [responses.ResponseObject, responses.ResponseDeleted, responses.InputTokens, responses.InputItems]
    plain += [frameworks.AutogenCreateResult, frameworks.AgentScope2Event]
    for model in plain:
        components.add(model)
    components.add(chat.ChatReply, prefixes=names["qwen"])
    text = "The JSON in `data` of a frame in the format `qwen`."
    components.add(chat.ChatFrame, "ChatFrame", names["qwen"], description=text)
    _add_requests(components, names, items)
    _add_replies(components, names)


def _add_requests(components: Components, names: dict[str, dict[str, str]], items: dict[str, str]) -> None:
    any_messages = _describe_messages(items.values())
    components.add(ChatRequestBody, "ChatRequest", examples=chat.REQUEST_EXAMPLES)
    request = components.schemas["ChatRequest"]["properties"]
    request["messages"] = any_messages
    for field in ("functions", "tools"):
        request[field]["anyOf"][0]["items"] = {"anyOf": [ref("Function"), ref("FunctionTool"), ref("CustomTool")]}
    components.add(Conversion, examples=_CONVERSION_EXAMPLES)
    components.schemas["Conversion"]["properties"]["messages"] = any_messages
    converted = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "warnings": []}
    components.add(Converted, examples=[converted])
    components.add(UpstreamCheck, examples=[{"base_url": "http://127.0.0.1:8001/v1"}])
    components.add(completions.CompletionRequest, prefixes=names["openai"])
    private = {f"_{name}": f"Anthropic{name}" for name in ("ToolChoice", "Thinking", "OutputFormat", "OutputConfig")}
    for type_, examples in (
        (MessagesRequest, messages.REQUEST_EXAMPLES),
        (CountTokensRequest, messages.COUNT_EXAMPLES),
    ):
        components.add(type_, prefixes=private, examples=examples)
        components.schemas[type_.__name__]["properties"]["messages"] = _describe_messages([items["anthropic"]])
    components.add(responses.ResponsesRequest, prefixes=names["responses"])


def _describe_messages(items: Iterable[str]) -> Json:
    """Describe a list of messages. Clients get one list for all formats: many generators confuse a choice of lists."""
    names = list(items)
    item = ref(names[0]) if len(names) == 1 else {"anyOf": [*map(ref, names)]}
    format_ = "all in the format that the request names" if len(names) > 1 else "of the conversation"
    return {"type": "array", "minItems": 1, "items": item, "description": f"The messages, {format_}."}


def _add_replies(components: Components, names: dict[str, dict[str, str]]) -> None:
    components.add(completions.ChatCompletionChunk | errors.OpenAIErrorBody, "ChatCompletionFrame")
    components.add(messages.AnthropicEvent, "AnthropicEvent")
    components.add(responses.ResponseEvent, "ResponseEvent")
    components.add(frameworks.AutogenReply, prefixes=names["autogen"])
    components.add(frameworks.AutogenFrame, "AutogenFrame", names["autogen"])
    components.add(frameworks.AgentScopeReply, prefixes=names["agentscope"])
    components.add(frameworks.AgentScopeFrame, "AgentScopeFrame", names["agentscope"])
    components.add(frameworks.AgentScope2Reply, prefixes=names["agentscope2"])


def _describe_convert() -> Json:
    statuses = errors.select("400", "403", "405", "413", "415", "421", "422")
    return {
        "requestBody": {"required": True, "content": json_content("Conversion")},
        "responses": {
            "200": {"description": "The messages, and what was lost", "content": json_content("Converted")},
            **errors.describe_errors(statuses, "ErrorBody"),
        },
    }
