"""Headers of a request whose `anthropic-beta` a server has refused: without the betas that it names, or without any."""

import re
from collections.abc import Sequence

from app.chat.events import Fault

Headers = Sequence[tuple[bytes, bytes]]
_HEADER = b"anthropic-beta"
_REFUSED = re.compile(r"invalid beta flag|unexpected value\(s\)[^\n]{0,1000}?anthropic-beta|unsupported beta", re.I)
"""AWS's, Google's and Anthropic's words (anthropics/claude-code#82549, anthropics/claude-agent-sdk-typescript#307)."""
_BETA = re.compile(r"(?<![\w-])[a-z][a-z0-9-]{1,60}-20\d\d-?\d\d-?\d\d(?![\w-])")
"""Ends with its day."""
_ALL = "any"


def find_betas(fault: Fault) -> str:
    """Return the betas that a server refuses; `any` if it names none."""
    if not _REFUSED.search(fault.message):
        return ""
    return " ".join(dict.fromkeys(_BETA.findall(fault.message))) or _ALL


def drop_betas(headers: Headers, named: str) -> Headers | None:
    """Return the headers without what was refused; None if they have nothing of it."""
    refused = named.split(" ")
    left: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name.lower() != _HEADER:
            left.append((name, value))
            continue
        given = [beta.strip() for beta in value.decode("latin-1").split(",")]
        kept = [] if named == _ALL else [beta for beta in given if beta and beta not in refused]
        if kept:
            left.append((name, ",".join(kept).encode("latin-1")))
    return None if left == list(headers) else left
