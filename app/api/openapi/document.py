"""Put the document together: the routes that FastAPI knows, and the endpoints that are served without FastAPI."""

from collections.abc import Iterable

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.convert import Conversion, Converted
from app.api.keys import ChangedKey, NewKey, Rotation
from app.api.openapi import chat, endpoints
from app.api.openapi.chat import PARTS
from app.api.openapi.components import Components, walk
from app.api.openapi.examples import write_examples
from app.api.upstream_check import UpstreamCheck
from app.formats import FORMATS, openapi
from app.formats.chat_body import ChatRequestBody
from app.formats.openapi import Json, json_content, ref

_SECURITY_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key of the gateway."},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same, as Anthropic's."},
    "api-key": {"type": "apiKey", "in": "header", "name": "api-key", "description": "The same, as Azure's."},
    "x-goog-api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "x-goog-api-key",
        "description": "The same, as Google's.",
    },
}
_TAGS = {
    "chat": "Conversations in any format, and the replies that can be read again",
    "openai": "For clients of OpenAI's chat completions",
    "anthropic": "For clients of Anthropic's Messages",
    "responses": "For clients of OpenAI's Responses",
    "gemini": "For clients of Google's Gemini API",
    "endpoints": "Requests that are no conversation, which pass through to the model's server",
    "convert": "Translation without a model",
    "models": "The models that requests can name",
    "usage": "Tokens and cost",
    "cache": "Stored replies, for administrators",
    "keys": "API keys, for administrators",
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
    paths |= chat.describe_paths() | endpoints.describe_paths()
    for part in PARTS.values():
        paths |= part.describe_paths()
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
    for status, text in openapi.select(*openapi.COMMON).items():
        if status != "401" or path not in _NO_KEY_NEEDED:
            found.setdefault(status, {"description": text, "content": form})
    operation["responses"] = dict(sorted(found.items()))
    if path in _NO_KEY_NEEDED:
        operation["security"] = []
    for parameter in operation.get("parameters", ()):
        for schema in walk(parameter["schema"]):
            schema.pop("title", None)


def _add_components(components: Components) -> None:
    items: dict[str, str] = {}
    for name, part in PARTS.items():
        items[name], names = components.add_format(part.prefix, FORMATS[name].schema)
        for model in (*part.replies, part.error, *part.more):
            components.add(model, prefixes=names)
        components.add(part.frame, part.frame_name, names)
        for body in part.bodies:
            components.add(body.type_, body.name, names, examples=body.examples)
            _describe_lists(components, body.name, [items[name]])
    for name, part in PARTS.items():
        write_examples(components, FORMATS[name], part)
    for model in (chat.FunctionTool, chat.CustomTool, chat.ReplyInProgress, chat.ReplyCancelled):
        components.add(model)
    for model in (endpoints.CohereErrorBody, endpoints.TextEmbeddingsErrorBody):
        components.add(model)
    components.add(ChatRequestBody, "ChatRequest", examples=chat.REQUEST_EXAMPLES)
    components.add(Conversion, examples=_CONVERSION_EXAMPLES)
    for name in ("ChatRequest", "Conversion"):
        _describe_lists(components, name, items.values())
    converted = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "warnings": []}
    components.add(Converted, examples=[converted])
    components.add(NewKey, examples=[{"name": "alice", "models": ["qwen*"], "limits": {"requests_per_minute": 60}}])
    components.add(ChangedKey, examples=[{"models": ["qwen*"], "note": "laptop"}])
    components.add(Rotation, examples=[{"overlap_seconds": 86400}])
    components.add(UpstreamCheck, examples=[{"base_url": "http://127.0.0.1:8001/v1"}])


def _describe_lists(components: Components, name: str, items: Iterable[str]) -> None:
    """Describe the messages and functions of a body, whose own types say nothing of their entries."""
    fields = components.schemas[name]["properties"]
    if "messages" in fields:
        fields["messages"] = _describe_messages(items)
    for field in ("functions", "tools") if "functions" in fields else ():
        fields[field]["anyOf"][0]["items"] = {"anyOf": [ref("Function"), ref("FunctionTool"), ref("CustomTool")]}


def _describe_messages(items: Iterable[str]) -> Json:
    """Describe a list of messages. Clients get one list for all formats: many generators confuse a choice of lists."""
    names = list(items)
    item = ref(names[0]) if len(names) == 1 else {"anyOf": [*map(ref, names)]}
    format_ = "all in the format that the request names" if len(names) > 1 else "of the conversation"
    return {"type": "array", "minItems": 1, "items": item, "description": f"The messages, {format_}."}


def _describe_convert() -> Json:
    statuses = openapi.select("400", "403", "405", "413", "415", "421", "422")
    return {
        "requestBody": {"required": True, "content": json_content("Conversion")},
        "responses": {
            "200": {"description": "The messages, and what was lost", "content": json_content("Converted")},
            **openapi.describe_errors(statuses, "ErrorBody"),
        },
    }
