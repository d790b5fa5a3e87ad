"""How many bytes two texts have in common at their beginnings or ends.

Nothing is copied. Long parts of both are compared, and shorter ones where they differ.
"""

_LONGEST = 4**8
_PROBE = 4**4
"""Many texts that are compared have less in common than this."""


def count_common_start(first: bytes, second: bytes) -> int:
    """Return how many bytes at the beginning of both are the same."""
    place, end = 0, min(len(first), len(second))
    given = memoryview(first)[:end]
    size = _LONGEST if second.startswith(given[:_PROBE]) else _PROBE // 4
    while size and place < end:
        while place < end and second.startswith(given[place : place + size], place):
            place += size
        size //= 4
    return min(place, end)


def count_common_end(first: bytes, second: bytes, start: int) -> int:
    """Return how many bytes at the end of both are the same; the first `start` ones do not count."""
    most, place = min(len(first), len(second)) - start, 0
    given, end = memoryview(first)[len(first) - most :], len(second)
    probe = min(_PROBE, most)
    size = _LONGEST if second.startswith(given[most - probe :], end - probe) else _PROBE // 4
    while size and place < most:
        while place < most:
            longer = min(place + size, most)
            if not second.startswith(given[most - longer : most - place], end - longer):
                break
            place = longer
        size //= 4
    return place
