"""`seal_reply`: what another gateway needs to send a reply again as this one does, encrypted with the key of
placeholders: gateways that have the same one are those that may know the values.

It is AES-256-GCM (NIST SP 800-38D), bound to the id and the owner of the reply.
"""

import base64
import hmac
import json
import os
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from app.chat.stage import Pipe, Stage
from app.guards.placeholders import Placeholders
from app.guards.restoring import RestoringStage
from app.guards.watch import RefusalStage

_NONCE_BYTES = 12


class SealedReply(Struct, frozen=True):
    """What is in a seal."""

    values: Mapping[str, str] = {}
    """The masked values of the request by their words."""
    restore: tuple[str, ...] = ()
    """Which texts of the reply are restored."""


def seal_reply(key: bytes, about: str, sealed: SealedReply) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # it takes time to import

    plain = json.dumps(msgspec.to_builtins(sealed)).encode()  # msgspec writes no half surrogate pairs
    nonce = os.urandom(_NONCE_BYTES)
    data = AESGCM(_derive_key(key)).encrypt(nonce, plain, about.encode())
    return base64.b64encode(nonce + data).decode()


def unseal_reply(key: bytes, about: str, text: str) -> SealedReply | None:
    """Return what was sealed with the same key for the same reply; None for anything else."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        data = base64.b64decode(text, validate=True)
        plain = AESGCM(_derive_key(key)).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], about.encode())
        return msgspec.convert(json.loads(plain), SealedReply)
    except (InvalidTag, ValueError):
        return None


def _derive_key(key: bytes) -> bytes:
    return hmac.digest(key, b"resumed replies", "sha256")


class ResumedReply:
    """Implements `GuardedReply` for a reply of another gateway."""

    def __init__(self, text: str, sealed: SealedReply, count: Callable[[str, int], None]) -> None:
        """`text` is the seal that `sealed` is from."""
        self._text = text
        self._sealed = sealed
        self._count = count
        self._placeholders = Placeholders(b"", "")
        self._placeholders.values.update(sealed.values)

    def make_stage(self, *, fails_refused: bool) -> Stage:
        return make_reader_stage(self._placeholders, self._sealed.restore, self._count, fails_refused=fails_refused)

    def seal(self, about: str) -> str:
        return self._text


def make_reader_stage(
    placeholders: Placeholders, restore: tuple[str, ...], count: Callable[[str, int], None], *, fails_refused: bool
) -> Stage:
    """Return the stage of one reader of a reply."""
    refusals = RefusalStage(fails=fails_refused)
    return Pipe((RestoringStage(placeholders, restore, count), refusals)) if restore else refusals
