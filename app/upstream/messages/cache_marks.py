"""How many cache marks a request of the Messages API may have, wherever they are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_MARKS = 4
"""How many it may have (platform.claude.com/docs/en/build-with-claude/prompt-caching): "A maximum of 4 blocks with
cache_control may be provided. Found 5." (Yeachan-Heo/gajae-code issue 3934, Wei-Shaw/sub2api issue 176)."""
_MARK = "cache_control"


def limit_marks(body: Mapping[str, Any], messages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Remove all cache marks but the last ones, as many as the API takes: those save the most. Returns what still has
    one, and a warning if others had. `messages` are those of the body; the holders of marks are changed."""
    marked = [holder for holder in _list_holders(body, messages) if _has_mark(holder)]
    most = MAX_MARKS - (body.get(_MARK) is not None)  # at the top it marks the last block
    for holder in marked[:-most]:
        del holder[_MARK]
    if len(marked) <= most:
        return marked, []
    text = f"cache_control was sent with the last {most} of {len(marked)} places: the server takes no more"
    return marked[-most:], [text]


def count_marks(body: Mapping[str, Any], messages: Sequence[Any] = ()) -> int:
    """Return how many cache marks a body has, of its messages those in `messages`."""
    return sum(map(_has_mark, _list_holders(body, messages))) + (body.get(_MARK) is not None)


def count_marks_of_messages(messages: Sequence[Any]) -> int:
    return sum(map(_has_mark, _list_holders({}, messages)))


def _has_mark(holder: Any) -> bool:
    return isinstance(holder, dict) and holder.get(_MARK) is not None


def _list_holders(body: Mapping[str, Any], messages: Sequence[Any]) -> Iterator[Any]:
    for name in ("tools", "system"):
        yield from body[name] if isinstance(body.get(name), list) else ()
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            inner = block.get("content") if isinstance(block, dict) else None
            if isinstance(inner, list) and block.get("type") == "tool_result":
                yield from inner
            yield block
