"""The endpoints whose requests pass through, with the paths of each, and what a model serves."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

ModelEndpoint: TypeAlias = Literal[
    "chat",
    "embeddings",
    "rerank",
    "score",
    "classify",
    "pooling",
    "moderations",
    "completions",
    "images",
    "audio",
    "speech",
]
"""What `endpoints` of a model may have."""
PathName: TypeAlias = Literal[
    "embeddings",
    "rerank",
    "score",
    "classify",
    "pooling",
    "moderations",
    "completions",
    "images",
    "audio",
    "speech",
    "tokenize",
    "detokenize",
]
"""What `paths` of an upstream may have."""
CHAT: ModelEndpoint = "chat"


class Endpoint(Struct, frozen=True):
    """One endpoint."""

    name: PathName
    serves: ModelEndpoint | None
    """What a model must serve; None: every model is served, and nothing is billed."""
    paths: tuple[str, ...]
    needs_model: frozenset[str] = frozenset()
    """The paths at which the maker of the API demands `model`. At others, the only model that fits is meant."""
    generates: bool = False
    """The answer has generated tokens."""
    needs_json: bool = True
    """An answer that is not JSON is a mistake of the server, unless its type says that it is bytes."""
    recorded_as: str = ""
    """Its name in the log and in metrics, if that is another one."""
    unknown: tuple[str, int] | None = None
    """What an answer is billed by beside tokens, and the number that counts if the server does not tell it."""
    speaks: bool = False
    """The characters of its text are counted."""


_OPENAI_AUDIO = ("/v1/audio/transcriptions", "/v1/audio/translations")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "embeddings",
        "embeddings",
        ("/v1/embeddings", "/embeddings", "/v1/embed", "/v2/embed"),
        frozenset(("/v1/embeddings",)),
    ),
    Endpoint(
        "rerank",
        "rerank",
        ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/reranking", "/reranking"),
        unknown=("searches", 1),
    ),
    Endpoint("score", "score", ("/v1/score", "/score", "/similarity")),
    Endpoint("classify", "classify", ("/v1/classify", "/classify", "/predict")),
    Endpoint("pooling", "pooling", ("/v1/pooling", "/pooling", "/embed", "/embed_all", "/embed_sparse")),
    Endpoint("moderations", "moderations", ("/v1/moderations",)),
    Endpoint(
        "completions",
        "completions",
        ("/v1/completions",),
        frozenset(("/v1/completions",)),
        generates=True,
        recorded_as="text_completions",
    ),
    Endpoint(
        "images",
        "images",
        ("/v1/images/generations", "/v1/images/edits", "/v1/images/variations"),
        unknown=("images", 1),
    ),
    Endpoint("audio", "audio", _OPENAI_AUDIO, frozenset(_OPENAI_AUDIO), needs_json=False, unknown=("seconds", 60)),
    Endpoint(
        "speech",
        "speech",
        ("/v1/audio/speech",),
        frozenset(("/v1/audio/speech",)),
        needs_json=False,
        speaks=True,
    ),
    Endpoint("tokenize", None, ("/v1/tokenize", "/tokenize")),
    Endpoint("detokenize", None, ("/v1/detokenize", "/detokenize")),
)
"""The paths of OpenAI, Cohere (`/v1/embed`, `/v2/…`), Jina and Voyage, vLLM, SGLang, llama.cpp (`/reranking`), TEI
(`/embed`, `/predict`, `/similarity`) and infinity (without `/v1`)."""
PATHS: frozenset[str] = frozenset(path for endpoint in ENDPOINTS for path in endpoint.paths)
MULTIPART_PATHS = frozenset((*_OPENAI_AUDIO, "/v1/images/edits", "/v1/images/variations"))
"""Their requests may have files."""
COHERE_PATHS = frozenset(("/v1/embed", "/v2/embed", "/v2/rerank"))
TEI_PATHS = frozenset(("/embed", "/embed_all", "/embed_sparse", "/similarity", "/predict"))
"""Text Embeddings Inference; only it has these paths, so that its clients read the errors."""


def describe_served(endpoints: Sequence[str]) -> str:
    """Return what a model serves, in words: `embeddings and rerank`."""
    return " and ".join(filter(None, (", ".join(endpoints[:-1]), endpoints[-1])))
