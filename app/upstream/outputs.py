"""Sound and pictures that a model made, out of the fields in which servers send them.

Sound comes in pieces of base64, each with an end of its own, and a transcript beside them. In a stream it has no head
(`pcm16`): then its type is `audio/pcm`.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from app.chat.events import MediaOutput
from app.chat.media_types import HEAD_BYTES, correct_media_type


class AudioParts:
    """Feeds on the `audio` of deltas, or of one whole message."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self._transcript: list[str] = []
        self._fields: dict[str, Any] = {}

    def add(self, audio: dict[str, Any]) -> str:
        """The transcript's new text."""
        data, transcript = audio.get("data"), audio.get("transcript")
        if isinstance(data, str) and data:
            self._data.append(data)
        self._fields |= {
            name: value for name, value in audio.items() if name not in ("data", "transcript") and value is not None
        }
        if not isinstance(transcript, str) or not transcript:
            return ""
        self._transcript.append(transcript)
        return transcript

    def close(self, warn: Callable[[str], None]) -> list[MediaOutput]:
        """The sound as one data URI; nothing where there is none, or none that can be read."""
        fields = self._fields | ({"transcript": "".join(self._transcript)} if self._transcript else {})
        if not self._data:
            return []
        try:
            raw = b"".join([base64.b64decode(piece, validate=True) for piece in self._data])
        except (binascii.Error, ValueError):
            warn("the model server's reply has sound that is not valid base64; only its transcript is carried")
            return []
        declared = fields.get("format")
        type_ = correct_media_type(raw[:HEAD_BYTES], f"audio/{declared}" if isinstance(declared, str) else "audio/pcm")
        return [MediaOutput("audio", f"data:{type_};base64,{base64.b64encode(raw).decode()}", fields)]


def parse_picture(item: Any) -> MediaOutput | None:
    """Of an item of `images` (OpenRouter), or of a content part; None where it names none."""
    holder = item.get("image_url") if isinstance(item, dict) else item
    url = holder.get("url") if isinstance(holder, dict) else holder
    if not isinstance(url, str) or not url[:8].lower().startswith(("http://", "https://", "data:")):
        return None
    return MediaOutput("image", url)
