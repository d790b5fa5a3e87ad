"""The side-car of a Qwen-Agent message: the data for which Qwen-Agent has no key, under `extra.parley`.

It holds the name and the `detail` of media (`media`, by index in the content), and the fields that a provider added to
a call, except `extra_content` (`call`). A note is ignored if the content has no media at its index.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from app.chat.messages import Media, Text, ToolCall
from app.formats.sidecar import read_notes, with_notes, without_notes

EXTRA_CONTENT = "extra_content"
"""The field of a call that is a key of `extra` itself."""
ContentParts = tuple[Text | Media, ...]


class QwenMediaNote(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    at: int = Field(ge=0)
    name: str | None = None
    detail: str | None = None


class QwenSidecar(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    media: list[QwenMediaNote] = []
    call: dict[str, Any] = {}


EMPTY_SIDECAR = QwenSidecar()


def read_sidecar(extra: Mapping[str, Any]) -> tuple[QwenSidecar, dict[str, Any]]:
    """Return (side-car, `extra` without it). A value that is not a valid side-car stays in `extra`."""
    sidecar = read_notes(extra, QwenSidecar.model_validate)
    return (EMPTY_SIDECAR, dict(extra)) if sidecar is None else (sidecar, without_notes(extra))


def apply_notes(content: ContentParts, sidecar: QwenSidecar) -> ContentParts:
    """Return the content with the names and details of its media from the side-car."""
    parts = list(content)
    for note in sidecar.media:
        part = parts[note.at] if note.at < len(parts) else None
        if isinstance(part, Media):
            parts[note.at] = replace(part, name=note.name, detail=note.detail)
    return tuple(parts)


def collect_notes(content: Sequence[Text | Media], call: ToolCall | None = None) -> dict[str, Any]:
    """Return the side-car of content and a call as `{"parley": …}`; an empty object if it is not needed."""
    media = [
        {"at": at} | {key: value for key, value in (("name", part.name), ("detail", part.detail)) if value}
        for at, part in enumerate(content)
        if isinstance(part, Media) and (part.name or part.detail)
    ]
    call_extra = {key: value for key, value in call.extra.items() if key != EXTRA_CONTENT} if call else {}
    sidecar: dict[str, Any] = ({"media": media} if media else {}) | ({"call": call_extra} if call_extra else {})
    return with_notes(None, sidecar) if sidecar else {}
