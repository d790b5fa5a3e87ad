"""What clients rely on in replies of OpenAI's form, as JSON schemas; no client package is needed to hold them."""

from typing import Any

from jsonschema import Draft202012Validator

TEXT = {"type": ["string", "null"]}
COUNT = {"type": "integer", "minimum": 0}
FINISH = ["stop", "length", "tool_calls", "content_filter", "function_call"]


def an_object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


USAGE = an_object({"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT})
FUNCTION = an_object({"name": {"type": "string", "minLength": 1}, "arguments": {"type": "string"}})
CALL = an_object({"id": {"type": "string", "minLength": 1}, "type": {"const": "function"}, "function": FUNCTION})
DETAILS = {"type": "array", "minItems": 1}
SPOKEN = {
    "content": TEXT,
    "refusal": TEXT,
    "reasoning_content": {"type": "string", "minLength": 1},
    "reasoning_details": DETAILS,
}
HEAD = {"id": {"type": "string", "minLength": 1}, "created": {"type": "integer"}, "model": {"type": "string"}}

COMPLETION = an_object(
    {
        **HEAD,
        "object": {"const": "chat.completion"},
        "usage": USAGE,
        "choices": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": an_object(
                {
                    "index": {"const": 0},
                    "finish_reason": {"enum": FINISH},
                    "logprobs": {"type": "null"},
                    "message": an_object(
                        {"role": {"const": "assistant"}, "content": TEXT, "refusal": TEXT},
                        {**SPOKEN, "tool_calls": {"type": "array", "minItems": 1, "items": CALL}},
                    ),
                }
            ),
        },
    }
)

PIECE_OF_CALL = an_object(
    {"index": COUNT},
    {
        "id": {"type": "string", "minLength": 1},
        "type": {"const": "function"},
        "function": {"type": "object", "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}}},
    },
)
CHUNK = an_object(
    {
        **HEAD,
        "object": {"const": "chat.completion.chunk"},
        "choices": {
            "type": "array",
            "maxItems": 1,
            "items": an_object(
                {
                    "index": {"const": 0},
                    "finish_reason": {"enum": [*FINISH, None]},
                    "delta": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            **SPOKEN,
                            "role": {"const": "assistant"},
                            "tool_calls": {"type": "array", "minItems": 1, "items": PIECE_OF_CALL},
                        },
                    },
                }
            ),
        },
    },
    {"usage": USAGE},
)

COMPLETION_VALIDATOR, CHUNK_VALIDATOR = Draft202012Validator(COMPLETION), Draft202012Validator(CHUNK)
