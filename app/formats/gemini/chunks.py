"""Chunks of a Gemini server that a client of the same API gets as they are."""

from collections.abc import Sequence
from typing import Any

import msgspec

Json = dict[str, Any]
_MODEL = "modelVersion"
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read = msgspec.json.Decoder(Json).decode
_ENDS = ("finishReason", "finishMessage")


def rename_model(text: str, model: str) -> bytes:
    """Return a chunk with the name of the model that the client asked for."""
    if _MODEL not in text:
        return text.encode()
    fields: dict[str, Any] = _read_fields(text)
    return msgspec.json.encode(fields | {_MODEL: model} if _MODEL in fields else fields)


def is_last(text: str) -> bool:
    """Whether a chunk says that the reply ends. Others may follow it."""
    if _ENDS[0] not in text:
        return False
    return any(candidate.get(_ENDS[0]) for candidate in _list_candidates(_read(text)))


def drop_finish(text: str) -> str:
    """Return a chunk that does not say that the reply ends."""
    chunk = _read(text)
    candidates = [{name: one[name] for name in one if name not in _ENDS} for one in _list_candidates(chunk)]
    return msgspec.json.encode({**chunk, "candidates": candidates}).decode()


def join_chunks(texts: Sequence[str], model: str) -> Json:
    """Return the chunks of a reply as one."""
    out: Json = {}
    candidates: dict[int, Json] = {}
    for chunk in map(_read, texts):
        for candidate in _list_candidates(chunk):
            index = candidate.get("index")
            index = index if type(index) is int else 0
            candidates[index] = _join_candidates(candidates[index], candidate) if index in candidates else candidate
        out |= {name: _join_values(out.get(name), value) for name, value in chunk.items() if value is not None}
    if candidates:
        out["candidates"] = list(candidates.values())
    return out | {_MODEL: model} if _MODEL in out else out


def _list_candidates(chunk: Json) -> list[Json]:
    candidates = chunk.get("candidates")
    return [one for one in candidates if isinstance(one, dict)] if isinstance(candidates, list) else []


def _join_values(before: Any, value: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(value, dict):
        return value
    return before | {name: inner for name, inner in value.items() if inner is not None}


def _join_candidates(before: Json, candidate: Json) -> Json:
    parts = [*_list_parts(before), *_list_parts(candidate)]
    joined = before | {name: value for name, value in candidate.items() if value is not None}
    contents = [one for one in (before.get("content"), candidate.get("content")) if isinstance(one, dict)]
    if not contents:
        return joined
    content = contents[0] | {name: value for one in contents[1:] for name, value in one.items() if value is not None}
    return joined | {"content": content | ({"parts": _join_texts(parts)} if parts else {})}


def _list_parts(candidate: Json) -> list[Any]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return parts if isinstance(parts, list) else []


def _join_texts(parts: Sequence[Any]) -> list[Any]:
    """Return the parts with neighbouring texts of one kind as one."""
    out: list[Any] = []
    for part in parts:
        last = out[-1] if out else {}
        if _is_text(part) and _is_text(last) and (part.get("thought") is True) == (last.get("thought") is True):
            out[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            out.append(part)
    return out


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() <= {"text", "thought"} and isinstance(part.get("text"), str)
