"""Names media in the text for a model, with Qwen-Agent's names and its sentence for uploads."""

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from app.chat import datauri
from app.chat.messages import ChatRequest, Media, MediaKind, Message, Part, ToolResult
from app.steps.prompt_language import Language

_LABELS: dict[Language, dict[MediaKind, str]] = {
    "en": {"file": "[file]", "image": "![image]", "video": "![video]", "audio": "![audio]"},
    "zh": {"file": "[文件]", "image": "![图片]", "video": "![视频]", "audio": "![音频]"},
}
_SENTENCES: dict[Language, str] = {"en": "(Uploaded {}) ", "zh": "（上传了 {}）"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_MAX_NAME = 200


def basename(url: str) -> str:
    """Return the last name of a URL's path (or of a Windows path), or the host. Not for data URIs."""
    plain = url.strip().replace("\\", "/")
    try:
        path = urlsplit(plain).path
    except ValueError:
        path = plain
    last = unquote(path.rsplit("/", 1)[-1]).strip()
    if not last:
        last = next((segment.strip() for segment in reversed(plain.split("?")[0].split("/")) if segment.strip()), "")
    return _CONTROL.sub(" ", last)[:_MAX_NAME]


def describe_medium(label: MediaKind, name: str, lang: Language) -> str:
    return f"{_LABELS[lang][label]}({name})"


def write_upload_sentence(descriptions: Iterable[str], lang: Language) -> str:
    return _SENTENCES[lang].format(" ".join(descriptions))


class MediaNames:
    """The names of all media of a request; each URL of a list of frames has a name.

    Media without a name are named after their type: `image.png`, then `image-2.png`. A name depends only on earlier
    messages, so that a continued conversation keeps its names, and with them the server's prompt cache. Names that
    depend on nothing else are made when they are asked for: most media are sent without one.
    """

    def __init__(self, request: ChatRequest) -> None:
        self._numbered: dict[int, list[str]] = {}
        self._given: dict[str, int] = {}
        for message in request.messages:
            for part in media_of(message):
                if not part.name and not all(map(is_web_url, part.urls)):
                    self._numbered[id(part)] = [self._make_name(part, url) for url in part.urls]

    def get(self, part: Media) -> list[str]:
        return self._numbered.get(id(part)) or [self._make_name(part, url) for url in part.urls]

    def _make_name(self, part: Media, url: str) -> str:
        if part.name:
            return basename(part.name) or part.media
        if is_web_url(url):
            return basename(url) or part.media
        return self._make_unique(part.media, _extension(part, url))

    def _make_unique(self, stem: str, extension: str) -> str:
        name = f"{stem}.{extension}" if extension else stem
        count = self._given[name] = self._given.get(name, 0) + 1
        if count == 1:
            return name
        return f"{stem}-{count}.{extension}" if extension else f"{stem}-{count}"


def _extension(part: Media, url: str) -> str:
    try:
        media_type = datauri.parse(url).media_type
    except ValueError:
        media_type = ""
    if found := datauri.EXTENSIONS.get(media_type):
        return found
    return part.format if part.format and part.format.isalnum() else ""


def is_web_url(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def media_of(message: Message) -> list[Media]:
    return [one for part in message.parts for one in _iter_parts(part) if isinstance(one, Media)]


def _iter_parts(part: Part) -> Iterable[Part]:
    return part.content if isinstance(part, ToolResult) else (part,)
