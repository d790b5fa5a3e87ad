"""Audio and images that a model generated, read from the fields in which servers send them.

Audio arrives as base64 fragments, each padded on its own, with a transcript beside them. Streamed audio (`pcm16`) has
no header; its media type is then `audio/pcm`.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from app.chat.events import MediaOutput
from app.chat.media_types import HEAD_BYTES, correct_media_type


class AudioParts:
    """Collects the `audio` fields of deltas or of one whole message."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self._transcript: list[str] = []
        self._fields: dict[str, Any] = {}

    def add(self, audio: dict[str, Any]) -> str:
        """Add one `audio` field and return the new text of the transcript."""
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
        """Return the audio as one data URI; nothing if there is none, or if its base64 is not valid."""
        fields = self._fields | ({"transcript": "".join(self._transcript)} if self._transcript else {})
        if not self._data:
            return []
        try:
            raw = b"".join([base64.b64decode(fragment, validate=True) for fragment in self._data])
        except (binascii.Error, ValueError):
            warn("the model server's reply has audio that is not valid base64; only its transcript is passed on")
            return []
        declared = fields.get("format")
        type_ = correct_media_type(raw[:HEAD_BYTES], f"audio/{declared}" if isinstance(declared, str) else "audio/pcm")
        return [MediaOutput("audio", f"data:{type_};base64,{base64.b64encode(raw).decode()}", fields)]


def parse_picture(item: Any) -> MediaOutput | None:
    """Read an item of `images` (OpenRouter) or a content part; None if it has no URL of an image."""
    holder = item.get("image_url") if isinstance(item, dict) else item
    url = holder.get("url") if isinstance(holder, dict) else holder
    if not isinstance(url, str) or not url[:8].lower().startswith(("http://", "https://", "data:")):
        return None
    return MediaOutput("image", url)
