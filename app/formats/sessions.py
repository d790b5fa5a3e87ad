"""Which session a request belongs to, so that it goes to the server that has the session's beginning in its cache."""

import hashlib
from collections.abc import Mapping
from typing import Any

_HEADERS = (
    b"x-claude-code-session-id",
    b"session-id",
    b"session_id",
    b"x-session-affinity",
    b"x-opencode-session",
    b"x-session-id",
    b"conversation_id",
    b"x-conversation-id",
    b"x-grok-conv-id",
)
"""Headers of clients, the clearest first: Claude Code; Codex, whose name of it has changed; OpenCode, which has two;
others (Wei-Shaw/sub2api pull requests 1578, 4684 and 6316; mnfst/llm-gateway pull request 2641); clients made for
OpenRouter or xAI."""
_MAX_BYTES = 256
"""A longer id is none. OpenRouter takes at most 256 characters (BerriAI/litellm issue 39153)."""


def find_session(
    headers: Mapping[bytes, bytes], extra: Mapping[str, Any], metadata: Mapping[str, str] | None, named: str | None
) -> bytes:
    """Return the id that the client gives the session; empty without one.

    A header is first, then `named`, which is `prompt_cache_key` or `user` of a Responses body, then these two of
    `extra`, the unknown fields of other bodies, then `session_id` and `user_id` of `metadata`: Claude Code's user id
    contains the session.
    """
    for name in _HEADERS:
        value = headers.get(name)
        if value and len(value) <= _MAX_BYTES:
            return value
    known = metadata or {}
    in_body = extra.get("prompt_cache_key"), extra.get("user"), known.get("session_id"), known.get("user_id")
    for field in (named, *in_body):
        if isinstance(field, str) and field:
            return field.encode("utf-8", "surrogatepass")
    return b""


def hash_session(caller: str, session: bytes) -> bytes:
    """Return 16 bytes for the session of a caller. The id itself cannot be computed from them."""
    return hashlib.blake2b(session, digest_size=16, key=hashlib.sha256(caller.encode()).digest()).digest()
