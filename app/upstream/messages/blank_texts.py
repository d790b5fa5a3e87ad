"""Leave blank texts out of a client's own messages: they say nothing, and for one of them a server of the Messages API
refuses the whole request (`Profile.blank_texts`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.chat.messages import ERROR_TEXT

Json = dict[str, Any]
_EMPTY: Json = {"type": "text", "text": ERROR_TEXT}
UNMARKED = ("thinking", "redacted_thinking")
"""Blocks that cannot have a cache mark (platform.claude.com/docs/en/build-with-claude/prompt-caching)."""
_LOST_MARK = "cache_control of a blank text was not sent: no block before it in the message can have it"


class KeptEntries(NamedTuple):
    """What is left of a client's own entries."""

    entries: Sequence[Any]
    warnings: Sequence[str] = ()


def leave_out_blank_texts(entries: Sequence[Any]) -> KeptEntries:
    """Return the entries without blank texts, and those themselves that have none. One of which nothing is left is left
    out, too, but for an empty message of a user: without it the model would go on with the message before it."""
    if not any(map(_has_blank, entries)):
        return KeptEntries(entries)
    kept: list[Any] = []
    warnings: list[str] = []
    for entry in entries:
        if not _has_blank(entry) or _is_empty_user(entry):
            kept.append(entry)
        elif isinstance(content := entry["content"], list):
            blocks, mark = _keep_blocks(content)
            warnings += [_LOST_MARK] if mark is not None else []
            kept += [{**entry, "content": blocks}] if blocks else []
    return KeptEntries(kept, list(dict.fromkeys(warnings)))


def leave_out_of_system(system: Any) -> tuple[Any, Sequence[str]]:
    """Return (the system's field without blank texts, None if nothing is left; warnings)."""
    if isinstance(system, str):
        return system if system.strip() else None, ()
    if not isinstance(system, list) or not any(map(_is_blank, system)):
        return system, ()
    blocks, mark = _keep_blocks(system)
    return blocks or None, (_LOST_MARK,) if mark is not None else ()


def _has_blank(entry: Any) -> bool:
    content = entry.get("content") if isinstance(entry, dict) else None
    if isinstance(content, str):
        return not content or content.isspace()
    return isinstance(content, list) and (not content or any(map(_is_or_has_blank, content)))


def _is_or_has_blank(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    if block.get("type") == "tool_result":
        content = block.get("content")
        return _is_empty_error(block) or (isinstance(content, list) and any(map(_is_blank, content)))
    return _is_blank(block)


def _is_empty_error(block: Json) -> bool:
    """Whether a result is an error that says nothing: "content cannot be empty if `is_error` is true"
    (anthropics/claude-agent-sdk-python#248, openclaw/openclaw#97292)."""
    return block.get("is_error") is True and not block.get("content")


def _is_blank(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and (not text or text.isspace())


def _is_empty_user(entry: Json) -> bool:
    content = entry["content"]
    if entry.get("role") != "user" or not isinstance(content, list):
        return entry.get("role") == "user" and not content
    return all(_is_blank(block) and not block["text"] for block in content)


def _keep_blocks(blocks: Sequence[Any]) -> tuple[list[Any], Any]:
    """Return (the blocks without blank texts, the mark of those that no block takes). A mark caches everything before
    it, so it moves to the block before."""
    kept: list[Any] = []
    lost: Any = None
    for block in blocks:
        if not _is_blank(block):
            kept.append(_keep_result(block))
            continue
        mark = block.get("cache_control")
        last = kept[-1] if kept else None
        if mark is None or (isinstance(last, dict) and last.get("cache_control")):
            continue
        if isinstance(last, dict) and last.get("type") not in UNMARKED:
            kept[-1] = {**last, "cache_control": mark}
        else:
            lost = mark
    return kept, lost


def _keep_result(block: Any) -> Any:
    """Return a block; of a tool's result, its content without blank texts. It takes the mark that no block in it can
    have. An error says at least that it is one."""
    if not isinstance(block, dict) or block.get("type") != "tool_result" or not _is_or_has_blank(block):
        return block
    given = block.get("content")
    content, mark = _keep_blocks(given) if isinstance(given, list) else ([], None)
    if block.get("is_error") is True and not content:
        content = [_EMPTY]
    marked = {"cache_control": mark} if mark is not None and not block.get("cache_control") else {}
    return {**block, "content": content, **marked}
