"""The objects of a reply of the Messages API, as `decoder` makes them."""

from typing import Any


class RaggedObject(dict[str, Any]):
    """An object whose texts may begin or end with half a character: servers cut UTF-16 between two deltas."""


class KeptObject(RaggedObject):
    """An object with the text that it was decoded from."""

    text: str
