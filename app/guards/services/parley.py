"""The gateway's own form, which knows the places of parts, reasoning and calls: docs/guides/guards.md."""

from collections.abc import Mapping
from typing import Any

from app.guards.verdicts import GuardError, Pass, Question, Reject, Replace, TextPart, Verdict

VERSION = 1


def make_url(base: str, question: Question) -> str:
    return base


def write(question: Question, guard: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "phase": question.phase,
        "guard": guard,
        "request_id": question.request_id,
        "reply_id": question.reply_id,
        "session": question.session,
        "turn": question.turn,
        "key": question.key,
        "team": question.team,
        "user": question.user,
        "model": question.model,
        "endpoint": question.endpoint,
        "final": question.final,
        "params": dict(params),
        "parts": [_write_part(part, question) for part in question.parts],
    }


def _write_part(part: TextPart, question: Question) -> dict[str, Any]:
    out: dict[str, Any] = {"id": part.id, "role": part.role, "kind": part.kind, "text": part.text}
    if part.name is not None:
        out["name"] = part.name
    if question.phase == "request":
        out["group"] = part.group
    return out


def read(answer: Any, question: Question, params: Mapping[str, Any]) -> Verdict:
    if not isinstance(answer, dict):
        raise GuardError("its answer is not a JSON object")
    ids = {part.id for part in question.parts}
    match answer.get("verdict"):
        case "pass":
            return Pass()
        case "replace":
            parts = answer.get("parts")
            if not isinstance(parts, dict) or not all(isinstance(text, str) for text in parts.values()):
                raise GuardError("its answer replaces, but has no texts in `parts`")
            if not parts.keys() <= ids:
                raise GuardError("its answer replaces a part that it was not sent")
            return Replace(parts)
        case "reject":
            return _read_reject(answer, ids)
    raise GuardError("its answer has no known verdict")


def _read_reject(answer: Mapping[str, Any], ids: set[str]) -> Verdict:
    """Read a refusal. One that does not name the parts in a way that can be read is of all of them."""
    reason, category, parts = answer.get("reason"), answer.get("category"), answer.get("parts")
    named = parts if isinstance(parts, list) and all(isinstance(part, str) and part in ids for part in parts) else []
    return Reject(
        reason if isinstance(reason, str) and reason else "no reason was given",
        category if isinstance(category, str) else None,
        tuple(named) or None,
    )
