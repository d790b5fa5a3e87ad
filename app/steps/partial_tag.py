"""Finds the end of a text that could still become a tag when more text arrives."""

from collections.abc import Iterable


def partial_tag_length(text: str, tags: Iterable[str]) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of one of the tags.

    Only suffixes that begin with the first character of a tag are compared: usually there is none.
    """
    longest = 0
    for tag in tags:
        place = text.find(tag[:1], max(len(text) - len(tag) + 1, 0))
        while 0 <= place < len(text) - longest:
            if tag.startswith(text[place:]):
                longest = len(text) - place
            else:
                place = text.find(tag[:1], place + 1)
    return longest
