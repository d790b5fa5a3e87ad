"""The id of a session, wherever a client puts it."""

from app.formats.sessions import find_session, hash_session

from tests.each_case import each_case


@each_case(
    ("headers", "extra", "metadata", "named", "session"),
    [
        ({}, {}, None, None, b""),
        ({b"session_id": b"a", b"x-claude-code-session-id": b"b"}, {}, None, "c", b"b"),
        ({b"session_id": b""}, {}, None, "c", b"c"),
        ({b"session_id": b"x" * 257}, {}, None, "c", b"c"),
        ({}, {"prompt_cache_key": "k", "user": "u"}, {"user_id": "v"}, None, b"k"),
        ({}, {"prompt_cache_key": 7, "user": "u"}, None, None, b"u"),
        ({}, {}, {"session_id": "s", "user_id": "u"}, None, b"s"),
        ({}, {"user": "\ud800"}, None, None, b"\xed\xa0\x80"),
    ],
)
def test_find_session(
    headers: dict[bytes, bytes], extra: dict[str, object], metadata: dict[str, str], named: str, session: bytes
) -> None:
    assert find_session(headers, extra, metadata, named) == session


def test_callers_with_the_same_id_have_different_sessions() -> None:
    assert len({hash_session(caller, b"1") for caller in ("", "alice", "bob", "x" * 200)}) == 4
    assert hash_session("alice", b"1") == hash_session("alice", b"1") and len(hash_session("", b"")) == 16
