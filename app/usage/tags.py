"""The tags of a request, by which usage and spending are grouped: read from a header and from its metadata. Pure."""

from collections.abc import Iterable, Mapping

TAGS_HEADER = b"x-parley-tags"
TAGS_FIELD = "tags"
"""In `metadata`, as other gateways have it (docs.litellm.ai, "Request Tags")."""
MAX_TAGS = 16
MAX_TAG = 64
"""The most characters of a tag."""
_SEPARATOR = ","


def read_tags(header: bytes | None, metadata: Mapping[str, str] | None) -> tuple[tuple[str, ...], list[str]]:
    """Return the tags of a request, each once and in their order, and warnings about those that do not count. Both
    places have tags with commas between them."""
    named = None if metadata is None else metadata.get(TAGS_FIELD)
    if header is None and named is None:
        return (), []
    tags: set[str] = set()
    warnings: list[str] = []
    places = (
        (TAGS_HEADER.decode(), "" if header is None else header.decode("utf-8", "replace")),
        (f"metadata.{TAGS_FIELD}", named or ""),
    )
    for place, text in places:
        for tag in filter(None, map(str.strip, text.split(_SEPARATOR))):
            if len(tag) > MAX_TAG or not tag.isprintable():
                warnings.append(f"{place}: a tag has 1 to {MAX_TAG} printable characters, so {tag[:MAX_TAG]!r} is none")
            elif len(tags) == MAX_TAGS and tag not in tags:
                warnings.append(f"{place}: a request has at most {MAX_TAGS} tags, so {tag!r} does not count")
            else:
                tags.add(tag)
    return tuple(sorted(tags)), warnings


def join_tags(tags: Iterable[str]) -> str:
    """Return the tags of a request as one text."""
    return _SEPARATOR.join(tags)


def split_tags(text: str) -> list[str]:
    """Return the tags that `join_tags` has joined; one that is empty for a request without any."""
    return text.split(_SEPARATOR)
