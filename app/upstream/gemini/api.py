"""Gemini's generateContent, as Google AI Studio and Vertex AI serve it (ai.google.dev/api/generate-content)."""

from urllib.parse import quote

from app.upstream.api import Api
from app.upstream.gemini.assembler import GeminiAssembler
from app.upstream.gemini.decoder import decode
from app.upstream.gemini.request import build
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader

_PREFIX = "models/"
"""Google's list of models has it before each name."""
_DOTS = {".": "%2E", "..": "%2E%2E"}


def make_reader(reply_id: str) -> ReplyReader:
    return ReplyReader(EventReader(decode), GeminiAssembler(reply_id))


def make_path(model: str, streams: bool) -> str:
    """Return the path of a request for a reply. A model's name may have slashes and colons."""
    parts = quote(model.removeprefix(_PREFIX), safe="/:").split("/")
    name = "/".join([_DOTS.get(part, part) for part in parts])
    return f"/{_PREFIX}{name}:{'streamGenerateContent?alt=sse' if streams else 'generateContent'}"


API = Api(
    "/models/any:generateContent",
    build,
    make_reader,
    make_path=make_path,
    list_path="/models?pageSize=1000",
    fields=frozenset(  # google-genai 3.6.1, types.py; ai.google.dev/api/generate-content
        ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent")
        + ("labels", "serviceTier", "store")
    ),
    conversation="contents",
    options="generationConfig",
    system="systemInstruction",
    key_header="x-goog-api-key",
    key_prefix="",
    default_path="/v1beta",
)
