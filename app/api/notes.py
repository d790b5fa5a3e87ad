"""What another gateway must know to tell a reply on: a note under the reply's id, where gateways share a Redis."""

import msgspec

from app.api.shelf import Kept
from app.cache import Place, Source
from app.chat.reply import Label, Origin
from app.formats import FORMATS
from app.formats.base import Mode, Options, ReplyInfo


class Note(msgspec.Struct, frozen=True):
    place: Place
    format: str
    mode: Mode
    scope: str
    request_id: str
    model: str
    created: int
    warnings: list[str]
    completed_bodies: bool
    include_usage: bool
    options: Options
    label: Label
    age_seconds: int | None


def note_of(kept: Kept, place: Place) -> bytes:
    info = kept.info
    note = Note(
        place=place,
        format=kept.format.name,
        mode=kept.mode,
        scope=kept.scope,
        request_id=info.request_id,
        model=info.model,
        created=info.created,
        warnings=list(info.warnings),
        completed_bodies=info.completed_bodies,
        include_usage=info.include_usage,
        options=info.options,
        label=info.origin.label,
        age_seconds=info.origin.age_seconds,
    )
    return msgspec.json.encode(note)


def read_note(data: bytes) -> Note | None:
    """None: another version of the gateway wrote it."""
    try:
        note = msgspec.json.decode(data, type=Note)
    except msgspec.MsgspecError:
        return None
    return note if note.format in FORMATS else None


def kept_of(note: Note, response_id: str, source: Source) -> Kept:
    info = ReplyInfo(
        response_id=response_id,
        request_id=note.request_id,
        model=note.model,
        created=note.created,
        origin=Origin(note.label, note.age_seconds),
        warnings=note.warnings,
        completed_bodies=note.completed_bodies,
        include_usage=note.include_usage,
        options=note.options,
    )
    return Kept(info, FORMATS[note.format], note.mode, note.scope, source)
