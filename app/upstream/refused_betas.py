"""Headers of a request whose `anthropic-beta` a server has refused: without the betas that it names, or without any."""

import re
from collections.abc import Sequence

from app.chat.events import Fault

Headers = Sequence[tuple[bytes, bytes]]
_NAME = b"anthropic-beta"
_REFUSED = re.compile(r"invalid beta flag|unexpected value\(s\)[^\n]{0,1000}?anthropic-beta|unsupported beta", re.I)
"""AWS's, Google's and Anthropic's words (anthropics/claude-code#82549, anthropics/claude-agent-sdk-typescript#307)."""
WARNING = "the model server refused values of anthropic-beta: the request was sent without them"


def leave_out_betas(headers: Headers, fault: Fault) -> Headers | None:
    """Return the headers without what was refused; None if that is not why a request was."""
    if fault.code != "invalid_request" or not _REFUSED.search(fault.message):
        return None
    given = [beta for name, value in headers if name.lower() == _NAME for beta in _split(value)]
    refused = {beta for beta in given if beta in fault.message} or set(given)
    left: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name.lower() != _NAME:
            left.append((name, value))
        elif kept := [beta for beta in _split(value) if beta not in refused]:
            left.append((name, ",".join(kept).encode("latin-1")))
    return left if given else None


def _split(value: bytes) -> list[str]:
    return [beta for beta in (one.strip() for one in value.decode("latin-1").split(",")) if beta]
