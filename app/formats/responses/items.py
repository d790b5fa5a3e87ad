"""The items of a Response, of which the reply's messages become one each."""

from typing import Any, assert_never

from app.chat.accumulator import ReplyMessage
from app.chat.datauri import is_data
from app.chat.events import ServerResult
from app.chat.hosted_tools import HostedKind
from app.chat.server_tools import OfferedTool, ToolError, describe_part
from app.formats.base import ResponsesOptions
from app.formats.citations import write_responses_citation
from app.formats.responses.schema import HOSTED_ITEMS
from app.formats.responses.tools import CALL_PREFIX, SEARCH_NAME, read_object
from app.formats.seal import Seal, write_seal
from app.openai_messages.custom_tools import unwrap_input

_PREFIXES = {"reasoning_content": "rs", "content": "msg", "function_call": "fc"}


def make_item(id_: Any, message: ReplyMessage, status: str, text: str, options: ResponsesOptions) -> dict[str, Any]:
    """Return the item of a message, which has this text so far."""
    head: dict[str, Any] = {"id": id_}
    match message.kind:
        case "reasoning_content":
            return head | {"type": "reasoning", **_write_reasoning(message, status, text, options)}
        case "content":
            item = {
                "type": "message",
                "role": "assistant",
                "status": status,
                "content": [make_part(message, text)],
            }
            return head | item | _write_text_fields(message.extra.get("extra_content"))
        case "function_call" if message.server is not None and message.server.hosted is not None:
            return make_search_call(
                id_, message.server.hosted, text, "completed" if status == "completed" else "failed"
            )
        case "function_call" if message.server is not None:
            call = message.server
            return make_server_call(message.id, call.server, call.tool, text) | {"status": status}
        case "function_call":
            return head | _write_call(message, status, text, options)
        case "media":
            return head | _write_media(message, status)
        case "function_result":
            return head  # its call's item has it
        case _:
            assert_never(message.kind)


def _write_reasoning(message: ReplyMessage, status: str, text: str, options: ResponsesOptions) -> dict[str, Any]:
    if options.summary:
        fields: dict[str, Any] = {"summary": [{"type": "summary_text", "text": text}], "status": status}
    else:
        content = [{"type": "reasoning_text", "text": text}]
        fields = {"summary": [], "status": status, "content": content}
    details = message.extra.get("reasoning_details") or []
    if options.sealed or details:
        fields["encrypted_content"] = write_seal(Seal(text, details))
    return fields


def _write_call(message: ReplyMessage, status: str, text: str, options: ResponsesOptions) -> dict[str, Any]:
    if is_search(message, options):
        item = {"type": "tool_search_call", "status": status, "call_id": message.id, "execution": "client"}
        return item | {"arguments": read_object(text) if text else {}}
    namespace, name = options.namespaces.get(message.name, ("", message.name))
    custom = is_custom(message, options)
    item = {"type": "custom_tool_call" if custom else "function_call", "status": status, "call_id": message.id}
    item["name"] = name
    if namespace:
        item["namespace"] = namespace
    return item | ({"input": unwrap_input(text)} if custom else {"arguments": text})


def choose_prefix(message: ReplyMessage, options: ResponsesOptions) -> str:
    """Return what the id of the message's item begins with."""
    if message.media is not None:
        return "ig" if message.media.media == "image" else "msg"
    if is_search(message, options):
        return "tsc"
    return "ctc" if is_custom(message, options) else _PREFIXES[message.kind]


def is_custom(message: ReplyMessage, options: ResponsesOptions) -> bool:
    return message.kind == "function_call" and message.name in options.custom


def is_search(message: ReplyMessage, options: ResponsesOptions) -> bool:
    return options.client_search and message.kind == "function_call" and message.name == SEARCH_NAME


def make_server_call(id_: str, server: str, tool: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"{CALL_PREFIX}{id_}",
        "type": "mcp_call",
        "server_label": server,
        "name": tool,
        "arguments": arguments,
        "status": "in_progress",
        "approval_request_id": None,
        "output": None,
        "error": None,
    }


def make_search_call(id_: str, kind: HostedKind, arguments: str, status: str) -> dict[str, Any]:
    """Return the item of a search or a fetch that the gateway runs."""
    given = read_object(arguments) if arguments else {}
    text = given.get("query" if kind == "web_search" else "url") if isinstance(given, dict) else None
    text = text if isinstance(text, str) else ""
    action = {"type": "search", "query": text, "queries": [text]}
    if kind == "web_fetch":
        action = {"type": "open_page", "url": text}
    return {"id": id_, "type": "web_search_call", "status": status, "action": action}


def write_tool(tool: OfferedTool) -> dict[str, Any]:
    return {
        "name": tool.tool,
        "description": tool.description,
        "input_schema": tool.parameters,
        "annotations": tool.annotations,
    }


def join_result(result: ServerResult) -> str:
    text = result.plain_text
    return "\n".join(map(describe_part, result.content)) if text is None else text


def write_tool_error(error: ToolError, result: ServerResult) -> dict[str, Any]:
    if error.kind == "execution":
        return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": join_result(result)}]}
    kind = "http_error" if error.kind == "http" else "mcp_protocol_error"
    return {"type": kind, "code": error.code, "message": error.message}


_NATIVE_ITEMS = HOSTED_ITEMS - {"image_generation_call", "computer_call_output"}
"""Items that clients get as they are, and send back so. An image is an item of its own anyway."""


def find_native_item(detail: Any) -> dict[str, Any] | None:
    """Return the item of a detail that clients of this API know; None for any other detail."""
    item = detail.get("item") if isinstance(detail, dict) and detail.get("type") == "provider.item" else None
    kind = item.get("type") if isinstance(item, dict) else None
    return item if isinstance(kind, str) and kind in _NATIVE_ITEMS else None


def _write_text_fields(extra_content: Any) -> dict[str, Any]:
    """Return the opaque fields of a text: its phase has a field of this API."""
    if not isinstance(extra_content, dict) or not extra_content:
        return {"extra_content": extra_content} if extra_content else {}
    own = extra_content.get("openai")
    own = own if isinstance(own, dict) else {}
    phase = own.get("phase")
    if not isinstance(phase, str):
        return {"extra_content": extra_content}
    rest = {name: value for name, value in own.items() if name != "phase"}
    others = {name: value for name, value in extra_content.items() if name != "openai"}
    extra = others | ({"openai": rest} if rest else {})
    return {"phase": phase} | ({"extra_content": extra} if extra else {})


def make_part(message: ReplyMessage, text: str) -> dict[str, Any]:
    if message.refusal:
        return {"type": "refusal", "refusal": text}
    annotations = [write_responses_citation(one) for one in message.extra.get("annotations") or ()] if text else []
    logprobs = write_logprobs(message.logprobs) if text else []
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}


def write_logprobs(tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return log probabilities as this API has them: `bytes` is never null."""
    return [
        {**_complete_bytes(token), "top_logprobs": list(map(_complete_bytes, token["top_logprobs"]))}
        for token in tokens
    ]


def _complete_bytes(token: dict[str, Any]) -> dict[str, Any]:
    return token if token["bytes"] is not None else {**token, "bytes": list(token["token"].encode())}


def _write_media(message: ReplyMessage, status: str) -> dict[str, Any]:
    """Write an image as the tool for images does, in base64 or as the server's URL. Audio, for which the API has no
    item, is a message without text, with the field `audio` of chat completions."""
    media = message.media
    assert media is not None
    data = media.url.partition(";base64,")[2] or media.url if is_data(media.url) else media.url
    if media.media == "image":
        return {"type": "image_generation_call", "status": status, "result": data}
    audio = {**media.fields, "data": data}
    return {"type": "message", "role": "assistant", "status": status, "content": [], "audio": audio}
