"""What to say of a path that does not exist: what is served instead of a well-known one, or the nearest that exists."""

import re
from collections.abc import Iterable

from app.validation.nearest import find_nearest

_CHAT = "POST /v1/chat/completions"
_SEND_CHAT = f"send the conversation to {_CHAT}"
_ASK_SERVER = "send this request to the model server itself"
_POSTED = ("/v1/chat", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens")
_SERVED = "POST /v1/chat, /v1/chat/completions, /v1/responses and /v1/messages, and GET /v1/models"
_MAX_LENGTH = 200
"""Longer paths are none of the well-known ones."""
_PREFIXES = r"(?:/(?:v[0-9]\w*|api|openai|anthropic|upload))*"
_TWICE = re.compile(r"/v1(/chat/completions|/messages|/responses)(?:/v1)?\1")
_BELOW = r"(?:/.*)?"
_ROWS = (
    (r"embeddings|embed(?:_all|_sparse)?", "Embeddings are served by POST /v1/embeddings"),
    (r"rank|rerank(?:ing)?", "Rankings are served by POST /v1/rerank"),
    (r"score|classify|pooling", "This is served by POST /v1/score, /v1/classify and /v1/pooling"),
    (
        r"(?:engines/[^/]+/)?completions?|complete|generate(?:_stream)?|infill",
        "Text completions are served by POST /v1/completions",
    ),
    (
        rf"images{_BELOW}",
        "Images are served by POST /v1/images/generations, /v1/images/edits and /v1/images/variations",
    ),
    (
        rf"audio{_BELOW}",
        "Audio is served by POST /v1/audio/transcriptions, /v1/audio/translations and /v1/audio/speech",
    ),
    (rf"videos{_BELOW}", f"Parley makes no video: {_ASK_SERVER}. The messages of a conversation can have them"),
    (r"moderations", "Moderation is served by POST /v1/moderations"),
    (r"(?<=/api/)chat", f"Ollama's own API is not served: {_SEND_CHAT}"),
    (
        r"tags|ps|show|pull|push|(?<=/api/)(?:version|create|copy|delete)",
        f"Ollama's own API is not served: GET /v1/models lists the models, and {_CHAT} takes conversations",
    ),
    (
        rf"(?:projects/[^/]+/locations/[^/]+/)?(?:cachedContents|corpora|fileSearchStores|tunedModels){_BELOW}",
        "Only Google's servers store this: send the contents themselves with each request",
    ),
    (
        rf"interactions{_BELOW}",
        "Google's Interactions are not served: send contents to POST /v1beta/models/{model}:generateContent",
    ),
    (
        r"(?:.+/)?models/.+:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)",
        "Google's API is served by POST /v1beta/models/{model}:generateContent. A base URL ends before /v1beta, unless "
        "the client adds only what follows it",
    ),
    (
        r"deployments/[^/]+/.*",
        f"Azure's paths with a deployment are not served: {_SEND_CHAT}, with `model` in the body",
    ),
    (r"model/[^/]+/(?:converse|invoke)[\w-]*", f"Bedrock's own API is not served: {_SEND_CHAT}"),
    (
        rf"(?:messages/)?batches{_BELOW}",
        "Batches are not served: send each request by itself. POST /v1/responses with `background: true` replies later",
    ),
    (
        rf"(?:files|uploads|containers){_BELOW}",
        "Files are not stored here: send their content in a message, as a data URI or a URL",
    ),
    (
        rf"(?:assistants|threads|conversations){_BELOW}",
        "Conversations are not stored here: send all messages, or use POST /v1/responses with `previous_response_id`",
    ),
    (
        rf"(?:fine_tuning|evals|skills|vector_stores|organizations?|realtime){_BELOW}",
        f"Only the provider serves this. Parley serves {_SERVED}",
    ),
    (
        r"(?:de)?tokenize",
        "POST /tokenize and /detokenize ask the model's server. Tokens of a conversation are counted by POST "
        "/v1/messages/count_tokens and POST /v1/responses/input_tokens",
    ),
    (r"v[0-9]", f"This is the base URL that OpenAI's SDKs take; requests go to paths below it, such as {_CHAT}"),
)
_UNSERVED = [(re.compile(f"{_PREFIXES}/(?:{names})", re.IGNORECASE), text) for names, text in _ROWS]
"""Paths of OpenAI, Anthropic, Ollama, vLLM, Gemini, Azure and Bedrock, and what to do instead."""


def find_unserved(path: str) -> str | None:
    """Return what to do instead of asking a well-known path of another API; None for any other path."""
    plain = path.rstrip("/")
    if len(plain) > _MAX_LENGTH:
        return None
    return next((f"{text}." for pattern, text in _UNSERVED if pattern.fullmatch(plain)), None)


def describe_unknown_path(path: str, served: Iterable[str]) -> str:
    """Return the message for a path that is none of `served`, with the nearest of them."""
    hint = find_unserved(path)
    if twice := _TWICE.fullmatch(path):
        hint = f"Did you mean /v1{twice[1]}? A base URL ends before {twice[1]}, which the client adds."
    if hint is None:
        found = find_nearest(path, served)
        hint = f"Did you mean {found}?" if found else f"Parley serves {_SERVED} (/docs describes all)."
    return f"no such path: {path}. {hint}"


def describe_wrong_method(path: str, method: str, allow: str) -> str:
    """Return the message for a method that `path` does not accept. A POST to nearly one of the paths that take
    conversations was probably meant for it."""
    found = find_nearest(path, _POSTED) if method == "POST" else None
    hint = find_unserved(path) or (f"Did you mean {found}?" if found else "")
    return f"{path} accepts {allow}, not {method}" + (f". {hint}" if hint else "")
