"""Thought signatures, which Gemini sends with calls and wants back with them.

The OpenAI-compatible API of Gemini has them in `extra_content.google.thought_signature` of a call, that of Vertex AI in
`extra_content.vertex.thought_signature` (earendil-works/pi issue 6733). Of parallel calls only the first one has one.
"""

from collections.abc import Mapping
from typing import Any

_KEY = "thought_signature"


def has_signature(extra: Mapping[str, Any]) -> bool:
    """Whether the opaque fields of a call have a signature."""
    content = extra.get("extra_content")
    if not isinstance(content, dict):
        return False
    return any(isinstance(part, dict) and part.get(_KEY) for part in content.values())


def sign(extra: Mapping[str, Any], signature: str) -> dict[str, Any]:
    """Return the opaque fields of a call with this signature."""
    content = extra.get("extra_content")
    given = content if isinstance(content, dict) else {}
    google = given.get("google")
    signed = {**(google if isinstance(google, dict) else {}), _KEY: signature}
    return {**extra, "extra_content": {**given, "google": signed}}
