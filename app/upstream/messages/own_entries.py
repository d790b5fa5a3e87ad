"""Arrange a client's own messages as every server of the Messages API takes them: the results of calls before the other
blocks of a message, and cache marks only where they may be, with what the server knows of them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from app.upstream.messages.blank_texts import UNMARKED, KeptEntries
from app.upstream.own_body import warn_of_unsent

Json = dict[str, Any]
_UNMARKED_THINKING = "cache_control of thinking was not sent: blocks of thinking cannot have it"


def arrange_entries(entries: Sequence[Any], *, takes_all: bool) -> KeptEntries:
    """Return the entries as they are sent, and those themselves in which nothing is to be changed.

    "`tool_use` ids were found without `tool_result` blocks immediately after": a result behind another block is not
    found (NousResearch/hermes-agent#65369, V1ki/dsh-plugin-subscriptions#22).
    """
    entries = _join_results(entries)
    if all(_is_arranged(entry, takes_all) for entry in entries):
        return KeptEntries(entries)
    arranged: list[Any] = []
    lost: set[str] = set()
    for entry in entries:
        if _is_arranged(entry, takes_all):
            arranged.append(entry)
            continue
        content = entry["content"]
        if entry.get("role") == "user":
            content = sorted(content, key=_is_no_result)
        arranged.append({**entry, "content": [_limit_block(block, takes_all, lost) for block in content]})
    warnings = [_UNMARKED_THINKING] if "" in lost else []
    return KeptEntries(arranged, [*warnings, *warn_of_marks(lost - {""})])


def has_late_results(entries: Sequence[Any]) -> bool:
    """Whether another message of the assistant stands between a call and its result, which the API refuses."""
    waiting: set[Any] = set()
    was_user = False
    for entry in entries:
        blocks = _list_blocks(entry) if isinstance(entry, dict) else []
        if _is_user(entry):
            waiting.difference_update([block.get("tool_use_id") for block in blocks if isinstance(block, dict)])
        elif waiting and was_user:
            return True
        else:
            waiting.update([one.get("id") for one in blocks if isinstance(one, dict) and one.get("type") == "tool_use"])
        was_user = _is_user(entry)
    return False


def _join_results(entries: Sequence[Any]) -> Sequence[Any]:
    """Return the entries in which a message of the user with results is not behind another one of the user: servers
    read neighbours of one role as one message, in which results come first."""
    if not any(_is_user(before) and _has_results(entry) for before, entry in pairwise(entries)):
        return entries
    joined: list[Any] = []
    for entry in entries:
        last = joined[-1] if joined else None
        if last is not None and _has_results(entry) and _is_user(last):
            joined[-1] = {**last, **entry, "content": [*_list_blocks(last), *_list_blocks(entry)]}
        else:
            joined.append(entry)
    return joined


def _is_user(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("role") == "user"


def _has_results(entry: Any) -> bool:
    return _is_user(entry) and not all(map(_is_no_result, _list_blocks(entry)))


def _list_blocks(entry: Any) -> list[Any]:
    content = entry.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def warn_of_marks(names: Iterable[str]) -> list[str]:
    """Return a warning for each field of cache marks that is left out."""
    return warn_of_unsent(f"{name} of cache_control" for name in sorted(names))


def limit_mark(holder: Any, lost: set[str]) -> Any:
    """Return a block, a tool or a body whose cache mark has only what every server knows of it: others refuse a `ttl`
    (BYK/loreai#560, BerriAI/litellm#38790). The names of the fields that are left out are added to `lost`."""
    mark = holder.get("cache_control") if isinstance(holder, dict) else None
    if not isinstance(mark, dict) or not mark.keys() - _KNOWN:
        return holder
    lost.update(map(str, mark.keys() - _KNOWN))
    return {**holder, "cache_control": {name: value for name, value in mark.items() if name in _KNOWN}}


_KNOWN = frozenset(("type",))
"""The fields of a cache mark that every server of the API knows."""


def _is_arranged(entry: Any, takes_all: bool) -> bool:
    content = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(content, list):
        return True
    ordered = entry.get("role") == "user"
    is_behind = False  # a block that is no result
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind != "tool_result":
            is_behind = True
        elif (ordered and is_behind) or not (takes_all or _has_short_marks(block.get("content"))):
            return False
        if kind in UNMARKED and "cache_control" in block:
            return False
        if not takes_all and not _has_short_mark(block):
            return False
    return True


def _has_short_marks(blocks: Any) -> bool:
    return not isinstance(blocks, list) or all(map(_has_short_mark, blocks))


def _has_short_mark(block: Any) -> bool:
    mark = block.get("cache_control") if isinstance(block, dict) else None
    return not isinstance(mark, dict) or not mark.keys() - _KNOWN


def _is_no_result(block: Any) -> bool:
    return not isinstance(block, dict) or block.get("type") != "tool_result"


def _limit_block(block: Any, takes_all: bool, lost: set[str]) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") in UNMARKED:
        if "cache_control" in block:
            lost.add("")
        return {name: value for name, value in block.items() if name != "cache_control"}
    if takes_all:
        return block
    limited = limit_mark(block, lost)
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        return {**limited, "content": [limit_mark(one, lost) for one in block["content"]]}
    return limited
