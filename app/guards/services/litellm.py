"""LiteLLM's Generic Guardrail API (docs.litellm.ai, "Generic Guardrail API").

An answer without an action is a failure here; LiteLLM takes it as a pass.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.guards.verdicts import GuardError, Pass, Question, Reject, Replace, TextPart, Verdict

PATH = "/beta/litellm_basic_guardrail_api"
_UNCHANGEABLE = ("images", "tools", "structured_messages")


def make_url(base: str, question: Question) -> str:
    return base if base.rstrip("/").endswith(PATH) else base.rstrip("/") + PATH


def write(question: Question, guard: str, params: Mapping[str, Any]) -> dict[str, Any]:
    texts, calls = _split(question.parts)
    body: dict[str, Any] = {
        "input_type": "request" if question.phase == "request" else "response",
        "texts": [part.text for part in texts if part.kind not in ("image", "tool")],
        "tool_calls": [_write_call(part) for part in calls],
        "model": question.model,
        "litellm_call_id": question.reply_id,
        "litellm_trace_id": question.session or question.request_id,
        "request_data": {
            "user_api_key_alias": question.key or None,
            "user_api_key_team_alias": question.team or None,
            "user_api_key_end_user_id": question.user or None,
        },
        "request_headers": dict(question.headers),
        "additional_provider_specific_params": dict(params),
    }
    images = [part.text for part in texts if part.kind == "image"]
    tools = [json.loads(part.text) for part in texts if part.kind == "tool"]
    if images:
        body["images"] = images
    if tools:
        body["tools"] = tools
    if question.phase == "request":
        body["structured_messages"] = write_messages(question.parts)
    return body


def _split(parts: Sequence[TextPart]) -> tuple[list[TextPart], list[TextPart]]:
    """Return (all but calls, calls)."""
    return [one for one in parts if one.kind != "arguments"], [one for one in parts if one.kind == "arguments"]


def _write_call(part: TextPart) -> dict[str, Any]:
    return {"id": part.call_id, "type": "function", "function": {"name": part.name or "", "arguments": part.text}}


def write_messages(parts: Sequence[TextPart]) -> list[dict[str, Any]]:
    """Write parts as messages of chat completions, one for each."""
    out: list[dict[str, Any]] = []
    for part in parts:
        if part.kind == "arguments":
            out.append({"role": "assistant", "content": None, "tool_calls": [_write_call(part)]})
        elif part.kind == "result":
            out.append({"role": "tool", "tool_call_id": part.call_id, "content": part.text})
        elif part.kind not in ("image", "tool"):
            out.append({"role": part.role, "content": part.text})
    return out


def read(answer: Any, question: Question, params: Mapping[str, Any]) -> Verdict:
    if not isinstance(answer, dict):
        raise GuardError("its answer is not a JSON object")
    action = answer.get("action")
    if action == "BLOCKED":
        reason = answer.get("blocked_reason")
        return Reject(reason if isinstance(reason, str) and reason else "no reason was given")
    holdback = _read_holdback(answer.get("stream_holdback_chars"))
    if action == "NONE":
        return Pass(holdback)
    if action != "GUARDRAIL_INTERVENED":
        raise GuardError("its answer has no known action")
    return _read_replacement(answer, question, holdback)


def _read_replacement(answer: dict[str, Any], question: Question, holdback: int) -> Verdict:
    others, calls = _split(question.parts)
    shown = [part for part in others if part.kind not in ("image", "tool")]
    texts = answer.get("texts")
    if texts is None and not shown:
        texts = []
    if not isinstance(texts, list) or len(texts) != len(shown) or not all(isinstance(text, str) for text in texts):
        raise GuardError(f"its answer does not have the {len(shown)} texts that it was sent")
    sent = write(question, "", {})
    returned = [name for name in _UNCHANGEABLE if answer.get(name) is not None]
    if any(_drop_nulls(answer[name]) != _drop_nulls(sent.get(name, [])) for name in returned):
        raise GuardError("its answer changes images, tools or messages, which cannot be applied")
    new = {part.id: text for part, text in zip(shown, texts, strict=True) if text != part.text}
    new |= _read_calls(answer.get("tool_calls"), calls)
    return Replace(new, holdback) if new else Pass(holdback)


def _drop_nulls(value: Any) -> Any:
    """Return JSON without fields that are null, which services add to what they send back as it was."""
    if isinstance(value, list):
        return [_drop_nulls(item) for item in value]
    if isinstance(value, dict):
        return {name: _drop_nulls(item) for name, item in value.items() if item is not None}
    return value


def _read_calls(given: Any, calls: Sequence[TextPart]) -> dict[str, str]:
    if not given:
        return {}
    if not isinstance(given, list) or len(given) != len(calls):
        raise GuardError(f"its answer does not have the {len(calls)} calls that it was sent")
    out: dict[str, str] = {}
    for part, call in zip(calls, given, strict=True):
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if not isinstance(arguments, str) or function is None or function.get("name") != (part.name or ""):
            raise GuardError("its answer changes a call in a way that cannot be applied")
        if arguments != part.text:
            out[part.id] = arguments
    return out


def _read_holdback(value: Any) -> int:
    """Read a list with one number, or the number."""
    if isinstance(value, list) and value:
        value = value[0]
    return max(0, value) if type(value) is int else 0
