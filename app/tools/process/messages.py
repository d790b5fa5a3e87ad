"""Reads what a server of tools sends as messages of the protocol, also where it is not quite valid.

A result is mended if only some characters of it are wrong. An answer that cannot be read is an error of its call, which
would otherwise wait for it until its time is over.
"""

import contextlib
import json
import re

import mcp_types
from pydantic import ValidationError
from pydantic_core import from_json

from app.upstream.reply.chunk import MAX_NESTING, is_too_deep

REQUEST_PREFIX = "parley-"
"""The ids of requests begin with it, those of the SDK's own do not."""
UNREADABLE = "the server's answer is not a valid message of the protocol"
TOO_LONG = "the server's answer is longer than its limit"
TOO_DEEP = f"the server's answer is nested deeper than {MAX_NESTING} levels"
_OUR_ID = re.compile(rb'"id"\s*:\s*"(%s\d+)"' % REQUEST_PREFIX.encode())
_ID_WITHIN = 200
"""The id is looked for in so many bytes at the beginning and at the end of an answer."""
_HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)


def parse_message(line: bytes) -> mcp_types.JSONRPCMessage | None:
    """Return a message; None if the line is none, and no answer to a request of ours either."""
    for repair in (bytes, repair_halves):
        try:
            # Not `validate_json`, which reads the text once for each kind of message, and keeps all that it read.
            return mcp_types.jsonrpc_message_adapter.validate_python(from_json(repair(line)), by_name=False)
        except (ValidationError, ValueError):
            continue
    return _refuse_unreadable(line)


def repair_halves(data: bytes) -> bytes:
    """Return a JSON text with `?` for each half of a surrogate pair, which Python's servers send for names of files
    that are not UTF-8, and U+FFFD for bytes that are not UTF-8. What is not valid JSON or too deep keeps its halves."""
    text = data.decode("utf-8", "replace")
    if _HALF_PAIR.search(data) and not is_too_deep(data):
        with contextlib.suppress(ValueError):
            text = json.dumps(json.loads(text), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def has_half_pair(data: bytes) -> bool:
    """Whether a JSON text may have half of a surrogate pair."""
    return _HALF_PAIR.search(data) is not None


def explain_unreadable(data: bytes) -> str:
    """Return one plain sentence."""
    return TOO_DEEP if is_too_deep(data) else UNREADABLE


def refuse_long(start: bytes) -> bytes | None:
    """Return an error in place of an answer that is too long, of which this is the beginning; None if it is not known
    which request it answers."""
    id_ = _find_id(start[:_ID_WITHIN])
    return None if id_ is None else _make_error(id_, TOO_LONG).model_dump_json().encode()


def _refuse_unreadable(line: bytes) -> mcp_types.JSONRPCError | None:
    id_ = _find_id(line[:_ID_WITHIN]) or _find_id(line[:1] + line[-_ID_WITHIN:])
    return None if id_ is None else _make_error(id_, explain_unreadable(line))


def _find_id(part: bytes) -> str | None:
    """Return the id of the request of ours that an answer names. What a server prints of a request is none."""
    found = _OUR_ID.search(part)
    return None if found is None or not part.startswith(b"{") or b'"method"' in part else found[1].decode()


def _make_error(id_: str, message: str) -> mcp_types.JSONRPCError:
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=message)
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=id_, error=error)
