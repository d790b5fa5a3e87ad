"""agentgateway's webhook for prompts and replies (agentgateway.dev, "Guardrail webhook API").

`action` of its answers has no tag: `{}` or a reason is a pass, a body with messages a mask, a body that is a string a
reject. Services also answer `{"pass": …}`, `{"mask": …}` and `{"reject": …}`. Anything else is a failure.
"""

from collections.abc import Mapping
from typing import Any

from app.guards.verdicts import GuardError, Pass, Question, Reject, Replace, TextPart, Verdict

_TAGS = ("pass", "mask", "reject")
_NO_REASON = "no reason was given"


def make_url(base: str, question: Question) -> str:
    return base.rstrip("/") + ("/request" if question.phase == "request" else "/response")


def write(question: Question, guard: str, params: Mapping[str, Any]) -> dict[str, Any]:
    messages = [_write_message(part) for part in question.parts]
    if question.phase == "request":
        return {"body": {"messages": messages}}
    return {"body": {"choices": [{"message": message} for message in messages]}}


def _write_message(part: TextPart) -> dict[str, Any]:
    role = {"arguments": "assistant", "result": "tool"}.get(part.kind, part.role)
    return {"role": role, "content": part.text}


def read(answer: Any, question: Question, params: Mapping[str, Any]) -> Verdict:
    action = answer.get("action") if isinstance(answer, dict) else None
    if not isinstance(action, dict):
        raise GuardError("its answer has no action")
    tag = next(iter(action)) if len(action) == 1 else None
    if tag in _TAGS:
        return _read_tagged(str(tag), action[tag], question)
    if not action.keys() <= {"body", "reason", "status_code"}:
        raise GuardError("its answer has an unknown action")
    body = action.get("body")
    if body is None and action.keys() <= {"reason"}:
        return Pass()
    if isinstance(body, str):
        return Reject(body or _read_reason(action))
    if isinstance(body, dict) and "status_code" not in action:
        return _read_mask(body, question)
    raise GuardError("its answer has an unknown action")


def _read_tagged(tag: str, value: Any, question: Question) -> Verdict:
    if tag == "reject" and not isinstance(value, dict):
        return Reject(value if isinstance(value, str) and value else _NO_REASON)
    if not isinstance(value, dict):
        raise GuardError("its answer has an unknown action")
    if tag == "pass":
        return Pass()
    body = value.get("body")
    if tag == "reject":
        return Reject(body if isinstance(body, str) and body else _read_reason(value))
    if not isinstance(body, dict):
        raise GuardError("its answer has a mask without a body")
    return _read_mask(body, question)


def _read_reason(action: Mapping[str, Any]) -> str:
    reason = action.get("reason")
    return reason if isinstance(reason, str) and reason else _NO_REASON


def _read_mask(body: Mapping[str, Any], question: Question) -> Verdict:
    given = body.get("messages" if question.phase == "request" else "choices")
    if not isinstance(given, list) or len(given) != len(question.parts):
        raise GuardError(f"its answer does not have the {len(question.parts)} messages that it was sent")
    new: dict[str, str] = {}
    for part, item in zip(question.parts, given, strict=True):
        message = item if question.phase == "request" else item.get("message") if isinstance(item, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise GuardError("its answer has a message without a text")
        if content != part.text:
            new[part.id] = content
    return Replace(new) if new else Pass()
