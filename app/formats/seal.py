"""Packs what a model server wants back with reasoning into one string, which clients return unread.

Clients of Anthropic's Messages send reasoning back with its `signature`, clients of OpenAI's Responses with its
`encrypted_content`. Parley writes a seal into both: `parley1.` and a JSON object in base64url. Identical contents give
identical strings.

A seal is not encrypted and not signed. It holds what this caller was sent in its own reply; a caller who changes it
could as well have sent `reasoning_details` in another format.
"""

import base64
import binascii
from typing import Any

import msgspec
from msgspec import Struct

from app.chat.messages import SEAL_PREFIX

MAX_NESTING = 100
"""The nesting of a seal's JSON. Code that writes it again is recursive, and limits of requests do not see into it."""


class SealedResult(Struct, frozen=True, omit_defaults=True):
    """A search or a fetch that the gateway has run, as the model's server sees it."""

    call_id: str
    name: str
    arguments: str
    text: str
    """What the model has read."""
    is_error: bool = False


class Seal(Struct, frozen=True, omit_defaults=True):
    """The contents of a seal. Keys of newer versions are ignored."""

    text: str | None = None
    """The reasoning itself, if the client is not shown it or sends it back in no other field."""
    details: list[Any] = []
    """`reasoning_details` of OpenRouter and others, which must return unchanged: with the text of a signed item."""
    calls: dict[str, Any] = {}
    """`extra_content` of the calls after this reasoning, by their ids (Gemini's `thought_signature`)."""
    texts: list[Any] = []
    """`extra_content` of the texts after this reasoning, in their order (the phase of a text)."""
    before: Any = None
    """`extra_content` of the text before, in whose stream it came after the text had begun."""
    results: dict[str, SealedResult] = {}
    """Searches and fetches of the web, by the ids of their items in the Responses API."""
    ends_turn: bool = False
    """The model was called again after these results, without others of the caller."""


def write_seal(contents: Seal) -> str:
    """Return the contents as a string that is never empty."""
    data = msgspec.json.encode(contents)
    return SEAL_PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def read_seal(text: str) -> Seal | None:
    """Return the contents, or None for a signature of another provider and for a damaged seal."""
    if not text.startswith(SEAL_PREFIX):
        return None
    encoded = text[len(SEAL_PREFIX) :]
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        found = msgspec.json.decode(data, type=Seal)
    except (ValueError, binascii.Error, RecursionError, msgspec.MsgspecError):
        return None
    return None if _is_too_deep([found.details, found.calls, found.texts, found.before]) else found


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_NESTING):
        level = [
            item
            for one in level
            if isinstance(one, list | dict)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
