"""Looking for tags in a text that comes in pieces."""

from collections.abc import Iterable


def held_suffix(text: str, tags: Iterable[str]) -> int:
    """The length of the longest end of `text` that may become one of the tags."""
    longest = 0
    for tag in tags:
        for length in range(min(len(tag) - 1, len(text)), longest, -1):
            if text.endswith(tag[:length]):
                longest = length
                break
    return longest


def first(text: str, start: int, tags: Iterable[str]) -> tuple[int, str]:
    """The place of the first of the tags, and the tag; (-1, "") where there is none."""
    place, found = -1, ""
    for tag in tags:
        at = text.find(tag, start) if place < 0 else text.find(tag, start, place + len(tag) - 1)
        if at >= 0 and (place < 0 or at < place):
            place, found = at, tag
    return place, found
