"""The shape of a conformance case, as the README describes it."""

from typing import Any

import jsonschema

from tests.conformance.cases import Json

TEXT_TOOLS = [
    "hermes",
    "qwen3_coder",
    "deepseek_v3",
    "deepseek_v31",
    "dsml",
    "mistral_json",
    "mistral_args",
    "llama_json",
    "pythonic",
    "glm45",
    "kimi_k2",
    "kimi_k3",
    "minimax_m2",
    "minimax_m3",
    "step3",
    "seed_oss",
    "gemma4",
    "harmony",
    "lmstudio",
]
ERROR_KINDS = [
    "rate_limit",
    "overloaded",
    "timeout",
    "server_error",
    "upstream_incomplete",
    "upstream_protocol",
    "invalid_request",
    "context_length_exceeded",
    "insufficient_quota",
    "authentication",
    "permission",
    "not_found",
    "content_filter",
    "tool_use_failed",
]


def _closed(required: Json, optional: Json | None = None) -> Json:
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TEXT: Json = {"type": "string"}
FILLED: Json = {"type": "string", "minLength": 1}
FLAG: Json = {"type": "boolean"}
TOOL: Json = {"anyOf": [FILLED, {"type": "object", "required": ["name", "parameters"]}]}
"""The name of a function, or all of it."""
ROLE: Json = {"const": "assistant"}
CALL = _closed({"name": FILLED, "arguments": FILLED})
CALL_EXTRA: Json = {"type": "object", "required": ["function_id"], "properties": {"function_id": FILLED}}
MESSAGE: Json = {
    "oneOf": [
        _closed({"role": ROLE, "reasoning_content": FILLED}, {"extra": {"type": "object"}}),
        _closed({"role": ROLE, "content": FILLED}, {"extra": {"type": "object"}}),
        _closed({"role": ROLE, "function_call": CALL, "extra": CALL_EXTRA}),
    ]
}
ERROR = _closed(
    {"kind": {"enum": ERROR_KINDS}, "transient": FLAG, "retry_safe": FLAG},
    {
        "status": {"type": "integer"},
        "retry_after_s": {"type": "number"},
        "message_contains": FILLED,
        "message_excludes": FILLED,
    },
)
EXPECT = _closed(
    {
        "messages": {"type": "array", "items": MESSAGE},
        "finish_reason": {"enum": ["stop", "length", "tool_calls", "content_filter", "error"]},
        "usage": {"type": ["object", "null"], "additionalProperties": {"type": "integer"}, "minProperties": 1},
        "error": {"oneOf": [{"type": "null"}, ERROR]},
        "compare": _closed({}, {"text": {"const": "strip"}, "arguments": {"const": "json"}}),
    }
)
PROFILE = _closed(
    {},
    {
        "inline_think": {"enum": ["leading", "forced_open", "auto_close", "interleaved", "off"]},
        "think_tags": {"type": "array", "items": FILLED, "minItems": 2, "maxItems": 2},
        "think_interrupt": FILLED,
        "text_tools": {"enum": TEXT_TOOLS},
    },
)
CASE = _closed(
    {
        "id": {"type": "string", "pattern": "^[QX]-[0-9]{3}$"},
        "title": FILLED,
        "category": {"enum": ["reasoning", "tools", "text_tools", "framing", "errors", "usage"]},
        "seen": FILLED,
        "upstream_kind": {"enum": ["stream", "json", "error"]},
        "request": _closed({"stream": FLAG}, {"tools": {"type": "array", "items": TOOL, "minItems": 1}}),
        "profile": PROFILE,
        "upstream_status": {"type": "integer", "minimum": 200, "maximum": 599},
        "upstream_headers": {"type": "object", "additionalProperties": TEXT},
        "upstream_body_encoding": {"enum": ["latin-1", "base64"]},
        "upstream_body_chunks": {"type": "array", "items": TEXT},
        "upstream_end": {"enum": ["clean", "abrupt"]},
        "expect": EXPECT,
        "source": FILLED,
    },
    {"note": FILLED, "derived": {"const": True}},
)
VALIDATOR: Any = jsonschema.Draft202012Validator(CASE)
