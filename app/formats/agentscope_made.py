"""AgentScope's messages that were made of nameless ones: their id says so, and they need no notes.

Qwen-Agent's and OpenAI's messages have no id, no time and often no sender, AgentScope's always do. An id made here is a
digest of what its message says, so that a message that somebody edited is one like any other.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import Message, Part, ToolResult
from app.formats.agentscope_ids import digest
from app.formats.agentscope_notes import Json, Tongue

_HEAD = "parley-"
_REPEATED = re.compile(r"_\d+$")
_KEYS = frozenset({"id", "name", "role", "content", "metadata"})


def made_id(item: Json) -> str:
    return _HEAD + digest(item["role"], item["name"], item["content"])


def pieces_made(item: Json, blocks: Sequence[Json], head: Message, tongue: Tongue) -> list[Message] | None:
    """The pieces without what AgentScope demands of every message; None where its id is not of its making."""
    id_: Any = item.get("id")
    if not isinstance(id_, str) or not id_.startswith(_HEAD) or _REPEATED.sub("", id_) != made_id(item):
        return None
    extra = {key: value for key, value in head.extra.items() if key != "message_id"}
    nobody = replace(head, name=None, turn=None, extra=extra)
    return [replace(one, parts=tuple(map(_unjudged, one.parts))) for one in tongue.read(blocks, nobody) or [nobody]]


def untouched(item: Json) -> bool:
    """Nobody added anything to a message that was made here."""
    return item.keys() <= _KEYS and not item.get("metadata")


def _unjudged(part: Part) -> Part:
    """Who says nothing of errors, says success in 2.x."""
    return replace(part, is_error=part.is_error or None) if isinstance(part, ToolResult) else part
