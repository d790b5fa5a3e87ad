"""The fields that are read of a Responses server's events, and of a whole reply, which is a `response` object.

The format is that of OpenAI's API (platform.openai.com/docs/api-reference/responses-streaming). Every other field is
skipped.
"""

from typing import Any

from msgspec import Struct


class ResponseEvent(Struct, gc=False):
    type: str = ""
    """Empty for an object that is no event: a whole reply, or an error."""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    annotation: dict[str, Any] | None = None
    part: dict[str, Any] | None = None
    whole: dict[str, Any] | None = None
    """All of the object, if it has no type, or is an `error`."""
    ragged: bool = False
    """`delta` may begin or end with half a surrogate pair, whose other half is in a neighbouring event."""
    is_odd: bool = False
    """The strict decoder has refused it."""
    is_flat: bool = False
    """The response is not in a field of the event: the event is the response."""
    unread: str = ""
    """The name of a field without which the event says nothing, and which is no object."""


class KeptEvent(Struct, gc=False):
    """An event, and the text that it was decoded from."""

    event: ResponseEvent | None
    text: str
    is_named: bool = False
    """Only the line before the data has the type of the event."""
