"""Short entries of a request log."""

from collections.abc import Sequence

from app.observe.request_log.entry import BodyFacts, Figures
from app.observe.request_log.file import LogFile, NewBody, NewEntry, StoredList


def figures(request_id: str = "r", key: str = "", **more: object) -> Figures:
    return Figures(request_id, "chat", 0.0, 1.0, 200, key=key, owner=key, **more)  # type: ignore[arg-type]


def entry(
    lists: Sequence[Sequence[bytes]], request_id: str = "r", key: str = "", ended_at: float = 1.0, user: str = ""
) -> NewEntry:
    facts = BodyFacts("client_request", -1, sum(len(piece) for pieces in lists for piece in pieces))
    body = NewBody(facts, [StoredList(pieces=pieces) for pieces in lists])
    return NewEntry(ended_at, figures(request_id, key), [body], user)


def add(file: LogFile, *entries: NewEntry) -> list[list[int]]:
    with file.write() as writer:
        return [writer.add(one) for one in entries]
