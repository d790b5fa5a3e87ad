"""What the schemas of AgentScope 1.x and 2.x have in common."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import CacheMark, Media, Text


def tag_by_type(value: Any) -> str | None:
    """Return the type in brackets, so that it does not become a step of an error's path."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(kind, str) else None


_MARK = "cache_control"
Json = dict[str, Any]


def marked(part: Text | Media, block: Json, path: str) -> Text | Media:
    """Return the part with the mark of its block, which must be valid."""
    return replace(part, mark=CacheMark(block[_MARK], f"{path}.{_MARK}")) if block.get(_MARK) else part


def marked_last(parts: Sequence[Text | Media], block: Json, path: str) -> tuple[Text | Media, ...]:
    """Put the mark of a block on the last of its parts, because a mark caches everything before it."""
    if not parts or parts[-1].mark:
        return tuple(parts)
    return (*parts[:-1], marked(parts[-1], block, path))


def with_mark(blocks: list[Json], part: Text | Media) -> list[Json]:
    """Put the mark of a part on the last of its blocks."""
    if part.mark is None or not blocks:
        return blocks
    return [*blocks[:-1], {**blocks[-1], _MARK: dict(part.mark.value)}]
