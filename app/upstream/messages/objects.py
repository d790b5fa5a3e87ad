"""The objects of a reply of the Messages API, as `decoder` makes them."""

from typing import Any, Literal

from msgspec import Struct


class PartDelta(Struct, gc=False):
    type: Literal["text_delta", "thinking_delta", "input_json_delta"]
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class TextPart(Struct, gc=False):
    """A delta of a block that adds to its text, its thinking or its input."""

    type: Literal["content_block_delta"]
    index: int
    delta: PartDelta
    data: bytes = b""
    """What it was decoded from."""


class RaggedObject(dict[str, Any]):
    """An object whose texts may begin or end with half a character: servers cut UTF-16 between two deltas."""


class KeptObject(RaggedObject):
    """An object with the text that it was decoded from."""

    text: str
