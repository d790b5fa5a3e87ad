"""Marks for the cache of a model's server (`cache_control`) on AgentScope's blocks, both ways."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import CacheMark, Media, Text

_MARK = "cache_control"
Json = dict[str, Any]


def marked(part: Text | Media, block: Json, path: str) -> Text | Media:
    """The part with the mark of its block, which was checked."""
    return replace(part, mark=CacheMark(block[_MARK], f"{path}.{_MARK}")) if block.get(_MARK) else part


def marked_last(parts: Sequence[Text | Media], block: Json, path: str) -> tuple[Text | Media, ...]:
    """What a block holds, with the block's mark at its end: what stands before a mark is cached."""
    if not parts or parts[-1].mark:
        return tuple(parts)
    return (*parts[:-1], marked(parts[-1], block, path))


def with_mark(blocks: list[Json], part: Text | Media) -> list[Json]:
    """The blocks that say a part, with its mark on the last."""
    if part.mark is None or not blocks:
        return blocks
    return [*blocks[:-1], {**blocks[-1], _MARK: dict(part.mark.value)}]
