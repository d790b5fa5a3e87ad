"""Short entries of a request log."""

from app.observe.request_log.entry import BodyFacts, Figures
from app.observe.request_log.file import LogFile, NewBody, NewEntry


def figures(request_id: str = "r", key: str = "", **more: object) -> Figures:
    return Figures(request_id, "chat", 0.0, 1.0, 200, key=key, owner=key, **more)  # type: ignore[arg-type]


def entry(data: bytes, request_id: str = "r", key: str = "", ended_at: float = 1.0, user: str = "") -> NewEntry:
    return make_entry(NewBody(make_facts(data), data), request_id, key, ended_at, user)


def make_entry(body: NewBody, request_id: str = "r", key: str = "", ended_at: float = 1.0, user: str = "") -> NewEntry:
    return NewEntry(ended_at, figures(request_id, key), [body], user)


def make_facts(data: bytes) -> BodyFacts:
    return BodyFacts("client_request", -1, len(data))


def add(file: LogFile, *entries: NewEntry) -> None:
    with file.write() as writer:
        for one in entries:
            writer.add(one)
