"""The response header `x-parley-attempts`: what was tried for one reply, as a list of structured fields (RFC 9651).

gpu-1;outcome=timeout;ms=1203, gpu-2;outcome=ok;ms=87
"""

import re
from collections.abc import Sequence

from app.chat.origin import Attempt

MAX_SHOWN = 16

_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*")


def write_attempts_header(attempts: Sequence[Attempt]) -> bytes:
    """Write the attempts in the order of their outcomes, at most the last MAX_SHOWN."""
    return ", ".join([_write_attempt(attempt) for attempt in attempts[-MAX_SHOWN:]]).encode("ascii")


def _write_attempt(attempt: Attempt) -> str:
    text = f"{_write_name(attempt.upstream)};outcome={attempt.outcome};ms={attempt.milliseconds:.0f}"
    if attempt.status is not None:
        text += f";status={attempt.status}"
    if attempt.model is not None:
        text += f";model={_write_name(attempt.model)}"
    return text


def _write_name(name: str) -> str:
    """Write a token, or a string in which every character that a string cannot hold is a question mark."""
    if _TOKEN.fullmatch(name):
        return name
    return '"' + re.sub(r'(["\\\\])', r"\\\1", re.sub(r"[^ -~]", "?", name)) + '"'
