"""Headers that say how a reply came about: which model servers were tried, and what the gateway warns of."""

import json
import re
from collections.abc import Sequence

from app.chat.stream import Attempt

MAX_SHOWN = 16
"""Attempts."""
MAX_WARNINGS_BYTES = 4096
"""The maximum length of `x-parley-warnings`: many clients and proxies accept at most 8 KB for all headers together."""
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


def write_warnings_header(warnings: Sequence[str]) -> bytes:
    """Write the warnings as a JSON list in ASCII. If they are too long, the last entry counts those left out."""
    shown: list[str] = []
    size = 2
    for text in warnings:
        size += len(json.dumps(text)) + 2
        if size > MAX_WARNINGS_BYTES - 32:
            shown.append(f"and {len(warnings) - len(shown)} more")
            break
        shown.append(text)
    return json.dumps(shown).encode("ascii")
