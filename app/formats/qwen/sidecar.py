"""What Qwen-Agent's keys cannot say of a message: under `extra.parley`, beside what they say.

Names of files and how closely to look at images (`media`, by place in the content), and what a provider hung on a call
beside `extra_content` (`call`). A note counts only where the content has media at its place.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from app.chat.messages import Media, Text, ToolCall
from app.formats.sidecar import read_notes, with_notes, without_notes

OF_CALL = "extra_content"
"""The one key of a call that has a place of its own in `extra`."""
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
    """(the bag, `extra` without it). What is no bag of ours stays where it is."""
    bag = read_notes(extra, QwenSidecar.model_validate)
    return (EMPTY_SIDECAR, dict(extra)) if bag is None else (bag, without_notes(extra))


def apply_notes(said: ContentParts, bag: QwenSidecar) -> ContentParts:
    parts = list(said)
    for note in bag.media:
        part = parts[note.at] if note.at < len(parts) else None
        if isinstance(part, Media):
            parts[note.at] = replace(part, name=note.name, detail=note.detail)
    return tuple(parts)


def collect_notes(said: Sequence[Text | Media], call: ToolCall | None = None) -> dict[str, Any]:
    """`{"parley": …}`, or nothing."""
    media = [
        {"at": at} | {key: value for key, value in (("name", part.name), ("detail", part.detail)) if value}
        for at, part in enumerate(said)
        if isinstance(part, Media) and (part.name or part.detail)
    ]
    of_call = {key: value for key, value in call.extra.items() if key != OF_CALL} if call else {}
    bag: dict[str, Any] = ({"media": media} if media else {}) | ({"call": of_call} if of_call else {})
    return with_notes(None, bag) if bag else {}
