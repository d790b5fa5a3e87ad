"""Gemini's generateContent, as Google AI Studio and Vertex AI serve it (ai.google.dev/api/generate-content)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from app.upstream.api import Api
from app.upstream.gemini.assembler import GeminiAssembler
from app.upstream.gemini.conversation import write_beginning
from app.upstream.gemini.decoder import decode, decode_kept
from app.upstream.gemini.own import build_own, write_own_beginning
from app.upstream.gemini.passed_body import build_passed
from app.upstream.gemini.passing import PassingAssembler
from app.upstream.gemini.repair import REPAIRS, strip_signatures
from app.upstream.gemini.request import build
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader

_PREFIX = "models/"
"""Google's list of models has it before each name."""
_DOTS = {".": "%2E", "..": "%2E%2E"}


def make_reader(reply_id: str) -> ReplyReader:
    return ReplyReader(EventReader(decode), GeminiAssembler(reply_id))


def make_passing_reader(reply_id: str) -> ReplyReader:
    return ReplyReader(EventReader(decode_kept), PassingAssembler(reply_id))


def make_path(model: str, streams: bool) -> str:
    """Return the path of a request for a reply."""
    return f"{_find_model(model)}:{'streamGenerateContent?alt=sse' if streams else 'generateContent'}"


def make_count(model: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request for the number of input tokens
    (ai.google.dev/api/tokens#method:-models.counttokens)."""
    request = {"model": _PREFIX + model.removeprefix(_PREFIX), **body}
    return f"{_find_model(model)}:countTokens", {"generateContentRequest": request}


def read_listed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the list of models (ai.google.dev/api/models) with the usual fields."""
    name, window = row.get("name"), row.get("inputTokenLimit")
    given = {} if window is None else {"context_length": window}
    return {**row, "id": name.removeprefix(_PREFIX), **given} if isinstance(name, str) else row


def make_embedding(model: str, method: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request for embeddings (ai.google.dev/api/embeddings). Each request of a batch
    names the model."""
    name, made = _PREFIX + model.removeprefix(_PREFIX), dict(body)
    requests = body.get("requests")
    if isinstance(requests, dict):  # an object in the place of a list is a list of one
        made["requests"] = {**requests, "model": name}
    elif isinstance(requests, list):
        made["requests"] = [{**one, "model": name} if isinstance(one, dict) else one for one in requests]
    if "model" in made:
        made["model"] = name
    return f"{_find_model(model)}:{method}", made


def _find_model(model: str) -> str:
    """Return the path of a model. Its name may have slashes and colons."""
    parts = quote(model.removeprefix(_PREFIX), safe="/:").split("/")
    return f"/{_PREFIX}{'/'.join([_DOTS.get(part, part) for part in parts])}"


API = Api(
    "/models/any:generateContent",
    build,
    make_reader,
    make_path=make_path,
    make_count=make_count,
    make_embedding=make_embedding,
    counted_name="totalTokens",
    list_path="/models?pageSize=1000",
    read_listed=read_listed,
    fields=frozenset(  # google-genai 3.6.1, types.py; ai.google.dev/api/generate-content
        ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent")
        + ("labels", "serviceTier", "store")
    ),
    own_fields=frozenset(
        ("args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema")
        + ("partMetadata", "labels")
    ),
    conversation="contents",
    has_types=False,
    options="generationConfig",
    system="systemInstruction",
    key_header="x-goog-api-key",
    key_prefix="",
    build_own=build_own,
    write_own_beginning=write_own_beginning,
    build_passed=build_passed,
    make_passing_reader=make_passing_reader,
    strip_reasoning=strip_signatures,
    write_beginning=write_beginning,
    repairs=REPAIRS,
    default_path="/v1beta",
    kind="gemini",
    other_ending=("/openai", "chat_completions"),
)
