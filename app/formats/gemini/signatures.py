"""`thoughtSignature`: what a model server wants back with a part, which every client returns unread.

It is base64, and the SDKs refuse any other text. So a seal of the gateway (`app.formats.seal`) is encoded once more.
A signature of Google's goes out as it is, and comes back so; some SDKs send it in the other alphabet of base64.
"""

import base64
import binascii
from typing import Any

from app.chat.messages import SEAL_PREFIX
from app.formats.gemini.schema import SIGNATURE_KEY, SIGNATURE_VENDOR
from app.formats.seal import Seal, read_seal, write_seal

_NO_SIGNATURES = frozenset(("skip_thought_signature_validator", "context_engineering_is_the_way_to_go"))
"""What clients write where they have no signature (https://ai.google.dev/gemini-api/docs/thought-signatures)."""
_TO_STANDARD = str.maketrans("-_", "+/")


def decode_base64(text: str) -> bytes | None:
    """Return the bytes of base64 in either alphabet, with or without padding; None if it is none."""
    plain = text.translate(_TO_STANDARD).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None


class Signature:
    """What a signature says: a seal of the gateway, fields for a model server, or nothing."""

    __slots__ = ("fields", "seal")

    def __init__(self, text: str) -> None:
        self.seal: Seal | None = None
        self.fields: dict[str, Any] | None = None
        """`extra_content` of the part that has the signature."""
        data = decode_base64(text)
        plain = "" if data is None else data.decode("latin-1")
        if not text or text in _NO_SIGNATURES or plain in _NO_SIGNATURES:
            return
        if plain.startswith(SEAL_PREFIX) or text.startswith(SEAL_PREFIX):
            self.seal = read_seal(plain if plain.startswith(SEAL_PREFIX) else text) or Seal()
            return
        same = text if data is None else base64.b64encode(data).decode()
        self.fields = {SIGNATURE_VENDOR: {SIGNATURE_KEY: same}}


def write_signature(contents: Seal) -> str:
    """Return a seal as a signature."""
    return base64.b64encode(write_seal(contents).encode()).decode()


def find_own_signature(fields: Any) -> str | None:
    """Return Google's signature if `extra_content` holds nothing else, and a client can be sent it as it is."""
    match fields:
        case {"google": {"thought_signature": str(signature), **inner}, **rest}:
            is_alone = not inner and not rest and bool(signature) and not signature.startswith(SEAL_PREFIX)
            return signature if is_alone and _is_standard(signature) else None
        case _:
            return None


def _is_standard(signature: str) -> bool:
    """Whether each client can decode it."""
    try:
        base64.b64decode(signature, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def holds_something(contents: Seal) -> bool:
    return bool(contents.text or contents.details or contents.calls or any(contents.texts))
