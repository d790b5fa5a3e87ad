"""Audio and images that a model generated, read from the fields in which servers send them.

Audio arrives as base64 fragments, each padded on its own, with a transcript beside them. Streamed audio (`pcm16`) has
no header; its media type is then `audio/pcm`.
"""

import base64
import binascii
from collections import deque
from collections.abc import Callable
from typing import Any

from app.chat.events import MediaOutput
from app.chat.media_types import HEAD_BYTES, correct_media_type


class AudioParts:
    """Collects the `audio` fields of deltas or of one whole message.

    Some servers send the words both as content and as transcript. What comes first is passed on, and the other only if
    it says something else.
    """

    def __init__(self, content: str, *, is_all: bool) -> None:
        """`content` came before the audio: all of it, or else only its beginning."""
        self._data: list[str] = []
        self._fields: dict[str, Any] = {}
        self._transcript: list[str] = []
        self._content = [content] if content else []
        self._leads = not content
        """The transcript came before any content."""
        self._knows_content = is_all
        self._differs = False
        """The content is known to say something else than the transcript that leads."""
        self._unmatched = _Unmatched(), _Unmatched()
        """What the leading transcript and the content have that the other lacks so far."""

    def add(self, audio: dict[str, Any]) -> str:
        """Add one `audio` field, and return what is to be passed on of its transcript."""
        data, transcript = audio.get("data"), audio.get("transcript")
        if isinstance(data, str) and data:
            self._data.append(data)
        self._fields |= {
            name: value for name, value in audio.items() if name not in ("data", "transcript") and value is not None
        }
        if not isinstance(transcript, str) or not transcript:
            return ""
        self._transcript.append(transcript)
        if not self._leads:
            return ""
        self._unmatched[0].pieces.append(transcript)
        return transcript + self._match()

    def add_content(self, text: str) -> str:
        """Add content, and return what is to be passed on of it."""
        self._content.append(text)
        if not self._leads or self._differs:
            return text
        self._unmatched[1].pieces.append(text)
        return self._match()

    def _match(self) -> str:
        """Compare content with the transcript that leads; once they differ, return all the content."""
        if self._differs:
            return ""
        spoken, written = self._unmatched
        while spoken.pieces and written.pieces and not self._differs:
            size = min(spoken.size, written.size)
            self._differs = spoken.take(size) != written.take(size)
        return "".join(self._content) if self._differs else ""

    def take_rest(self) -> str:
        """Return what was held back of the content or the transcript and is no repetition of the other."""
        if self._leads:
            written = self._unmatched[1]
            return "" if self._differs else "".join(written.take(len(piece)) for piece in [*written.pieces])
        content, transcript = "".join(self._content), "".join(self._transcript)
        if not self._knows_content:
            begin, end = self._content[0], "".join(self._content[1:])
            return "" if transcript.startswith(begin) and transcript.endswith(end) else transcript
        if content.strip().startswith(transcript.strip()):
            return ""
        return transcript.removeprefix(content)

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


class _Unmatched:
    """Pieces of a text, of which the first one may be taken in part."""

    def __init__(self) -> None:
        self.pieces: deque[str] = deque()
        self._at = 0

    @property
    def size(self) -> int:
        """How much is left of the first piece."""
        return len(self.pieces[0]) - self._at

    def take(self, size: int) -> str:
        """Take up to `size` characters of the first piece."""
        text = self.pieces[0][self._at : self._at + size]
        self._at += size
        if self._at >= len(self.pieces[0]):
            self.pieces.popleft()
            self._at = 0
        return text


def parse_picture(item: Any) -> MediaOutput | None:
    """Read an item of `images` (OpenRouter) or a content part; None if it has no URL of an image."""
    holder = item.get("image_url") if isinstance(item, dict) else item
    url = holder.get("url") if isinstance(holder, dict) else holder
    if not isinstance(url, str) or not url[:8].lower().startswith(("http://", "https://", "data:")):
        return None
    return MediaOutput("image", url)
