"""Read a file of the user as a content item of a message, with its bytes in a data URI."""

import mimetypes
import shlex
from pathlib import Path

from app.chat.datauri import EXTENSIONS, encode
from app.chat.media_types import HEAD_BYTES, correct_media_type, detect_type

_UNKNOWN = "application/octet-stream"


class UnreadableFile(Exception):
    """A file cannot be read; the message names it and says why."""


def find_file(typed: str) -> Path:
    """Return the path that was typed. Quotes and backslashes, which terminals add to a dropped file, are removed."""
    path = Path(typed).expanduser()
    if path.exists():
        return path
    try:
        words = shlex.split(typed)
    except ValueError:
        return path
    return Path(words[0]).expanduser() if len(words) == 1 else path


def read_attachment(file: Path) -> dict[str, str]:
    """Return `{kind: data URI}`, where the kind is image, audio, video or file. Raises UnreadableFile."""
    try:
        if not file.is_file():
            raise UnreadableFile(f"{file}: {'is not a file' if file.exists() else 'there is no such file'}")
        content = file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise UnreadableFile(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not content:
        raise UnreadableFile(f"{file}: is empty")
    media_type = _find_media_type(file, content)
    kind = media_type.partition("/")[0]
    return {kind if kind in ("image", "audio", "video") else "file": encode(media_type, content)}


def _find_media_type(file: Path, content: bytes) -> str:
    """Return the type that the first bytes show, else that of the file's name.

    Source code is plain text: systems give its extensions odd types (`.ts` is a video, or a translation).
    """
    named = mimetypes.guess_type(file.name)[0] or _UNKNOWN
    found = detect_type(content[:HEAD_BYTES])
    if found is not None:
        return correct_media_type(content[:HEAD_BYTES], named)
    if not _is_text(content):
        return named
    return named if named in EXTENSIONS else "text/plain"


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
