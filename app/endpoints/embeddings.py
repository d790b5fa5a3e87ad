"""The inputs of a request for embeddings, each of which has a vector of its own, and the answer put together from
vectors that are known and those of a server.

The vectors stay as the server wrote them: nothing of them is read.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.endpoints.body import EndpointBody
from app.endpoints.usage import count_tokens

PATHS = frozenset(("/v1/embeddings", "/embeddings"))
"""Whose requests and answers have OpenAI's form."""
VERSION = 1
"""Increased whenever the form of the keys or of what is stored changes."""
_OF_EACH_INPUT = frozenset(
    {
        *("model", "input", "user", "encoding_format", "dimensions"),  # OpenAI
        *("input_type", "truncation", "output_dimension", "output_dtype"),  # Voyage
        *("task", "normalized", "embedding_type", "truncate"),  # Jina, NVIDIA NIM
        *("truncate_prompt_tokens", "truncation_side", "add_special_tokens", "normalize"),  # vLLM
    }
)
"""Fields that say the same of each input. With another one, as Jina's `late_chunking`, a vector may depend on the
inputs beside it."""
_UNHASHED = ("input", "user")
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_encode = msgspec.json.Encoder(order="sorted").encode
_write = msgspec.json.encode


def wants_base64(path: str, body: EndpointBody) -> bool:
    """Whether the client reads vectors in base64 alone."""
    return path in PATHS and "encoding_format" in body.fields and body.read("encoding_format") == "base64"


class Server(Struct, frozen=True):
    """What a server is sent, and what may change its answer beside that."""

    base_url: str
    model: str
    variant: Sequence[tuple[str, str]]
    body: bytes


class Vectors(Struct, frozen=True):
    """The answer of a server, taken apart."""

    fields: Mapping[str, Raw]
    """Those beside the vectors."""
    items: tuple[bytes, ...]
    """An object with its vector for each input, in their order."""


def read_inputs(body: EndpointBody) -> list[bytes] | None:
    """Return the inputs, each as JSON; None if vectors are not to be told apart by them: they are neither texts nor
    tokens, or another field of the request may tie them together."""
    if not _OF_EACH_INPUT.issuperset(body.fields):
        return None
    value = body.read("input")
    if isinstance(value, str) or _are_tokens(value):
        value = [value]
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, str) for item in value) or all(map(_are_tokens, value)):
        return list(map(_write, value))
    return None


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)


def make_keys(servers: Sequence[Server], inputs: Sequence[bytes], scope: str) -> list[str]:
    """Return a key for each input: equal exactly where the same servers are sent the same input in requests that are
    alike but for their inputs."""
    described = []
    for server in servers:
        fields = _decode(server.body)
        for name in _UNHASHED:
            fields.pop(name, None)
        described.append([server.base_url, server.model, server.variant, fields])
    common = hashlib.blake2b(_encode(["embeddings", VERSION, scope, described]), digest_size=32)
    keys = []
    for item in inputs:
        hashed = common.copy()
        hashed.update(item)
        keys.append(hashed.hexdigest())
    return keys


def select_inputs(body: EndpointBody, inputs: Sequence[bytes]) -> EndpointBody:
    """Return the body with only these inputs."""
    return replace(body, fields={**body.fields, "input": Raw(b"[%b]" % b",".join(inputs))})


def read_vectors(data: bytes, count: int) -> Vectors | None:
    """Take an answer with the vectors of so many inputs apart; None if it has not exactly these."""
    try:
        fields = _decode(data)
        items = _decode_items(fields["data"])
        placed = {msgspec.json.decode(item["index"], type=int): item for item in items}
    except (KeyError, ValueError, RecursionError):
        return None
    if len(items) != count or placed.keys() != set(range(count)) or not all("embedding" in item for item in items):
        return None
    return Vectors(fields, tuple([_write(placed[at]) for at in range(count)]))


def write_answer(items: Sequence[bytes], model: str, fields: Mapping[str, Raw] | None = None) -> bytes:
    """Write the answer with these vectors. `fields` are those of the server that was asked for some of them; without
    one, nothing was used."""
    data = [{**_decode(item), "index": at} for at, item in enumerate(items)]
    used = {name: count for name, count in count_tokens(0).items() if name != "completion_tokens"}
    others: Mapping[str, Any] = {"model": model, "usage": used} if fields is None else fields
    return _write({"object": "list", **others, "data": data})
