"""The JSON body of a request: its top level is read, and its values stay as they are."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.chat.fetched_urls import find_body_urls, find_media_addresses
from app.chat.token_estimate import BYTES_PER_TOKEN
from app.errors import BadRequest, ParleyError
from app.params import read_number

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_value = msgspec.json.Decoder().decode
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NUMBER = re.compile(rb"[0-9]+")
CONTENT_FIELDS = frozenset(
    {
        *("input", "inputs", "texts", "text", "query", "queries", "documents", "prompt", "suffix", "messages"),
        *("text_1", "text_2", "data_1", "data_2", "source_sentence", "sentences", "tokens", "content"),
        *("image", "images", "mask", "instructions", "voice"),
        *("instruction", "instruct", "title", "negative_prompt", "lyrics", "reference_text", "ref_text"),
    }
)
"""What a model is given to read. Prompts are counted by these; no other field of them chooses anything."""


_MEDIA = frozenset(
    {
        *("image", "images", "mask", "audio", "video", "videos", "pdf", "file", "files", "ref_audio"),
        *("reference_image", "reference_images", "reference_audio", "input_image", "input_images", "audio_prompt"),
    }
)
"""Fields, at any depth, with media that servers take as a URL, too: Jina's and Voyage's vectors and rankings, edits of
images, voices to copy. With `modality`, infinity reads the texts of `input` as such."""


class OwnBody(Struct, frozen=True):
    """The client's own body in another API, of which the fields of an `EndpointBody` are a translation."""

    api: str
    method: str
    """What the client's path calls."""
    fields: Mapping[str, Any]
    refusal: ParleyError | None = None
    """Why there is no translation; a server of the API may know more."""


class EndpointBody(Struct, frozen=True):
    """The body of a request that passes through."""

    fields: Mapping[str, Raw]
    model: str | None
    """None: the request names none."""
    stream: bool = False
    own: OwnBody | None = None
    """What servers of the client's API are sent instead."""

    def encode(self, model: str, more: Mapping[str, Any], stream_options: Mapping[str, Any]) -> bytes:
        """Return the body for a server: with its name of the model, these fields where the request has none, and these
        options of a stream beside its own."""
        fields: dict[str, Any] = {**self.fields, "model": model}
        fields |= {name: value for name, value in more.items() if name not in fields}
        if stream_options:
            given = self.read("stream_options")
            fields["stream_options"] = {**(given if isinstance(given, dict) else {}), **stream_options}
        return msgspec.json.encode(fields)

    @property
    def names_usage(self) -> bool:
        """Whether the request says if its stream shall have a usage."""
        options = self.read("stream_options")
        return isinstance(options, dict) and "include_usage" in options

    def read(self, name: str) -> Any:
        """Return a value; None if there is none. Raises BadRequest."""
        raw = self.fields.get(name)
        return None if raw is None else _read_value(name, raw)

    def without_tags(self) -> "EndpointBody":
        """Return the body without `metadata.tags`, which are for the gateway."""
        metadata = self.read("metadata") if "metadata" in self.fields else None
        if not isinstance(metadata, dict) or "tags" not in metadata:
            return self
        fields = {name: raw for name, raw in self.fields.items() if name != "metadata"}
        if rest := {name: value for name, value in metadata.items() if name != "tags"}:
            fields["metadata"] = Raw(msgspec.json.encode(rest))
        return replace(self, fields=fields)

    def read_count(self, *names: str) -> int | None:
        """Return the largest whole number above 0 of these fields, in any form in which servers read one (`2`, `2.0`,
        `"2"`); None if there is none."""
        counts = [read_number(self.read(name)) for name in names if name in self.fields]
        return max(counts, default=0) or None

    def estimate_tokens(self) -> int:
        """Return about how many tokens a model must read: by the bytes of texts, and by the numbers in lists."""
        return sum(_estimate_tokens(bytes(raw)) for name, raw in self.fields.items() if name in CONTENT_FIELDS)

    def count_characters(self) -> int:
        """Return the length of the text `input`, as speech is billed."""
        text = self.read("input") if "input" in self.fields else None
        return len(text) if isinstance(text, str) else 0

    def find_urls(self) -> list[tuple[str, str]]:
        """Return (JSON path, URL) of each URL that a model server may fetch."""
        if self.own is not None:
            return list(find_body_urls(self.own.fields, None))
        modality = self.read("modality")
        names = _MEDIA | CONTENT_FIELDS if isinstance(modality, str) and modality in _MEDIA else _MEDIA
        texts = CONTENT_FIELDS - names
        waiting = ((name, bytes(raw)) for name, raw in self.fields.items())
        found = [name for name, raw in waiting if b"/" in raw and (name not in texts or b"{" in raw)]
        return find_media_addresses({name: self.read(name) for name in found}, names)

    def read_media(self) -> dict[str, Any]:
        """Return the fields with media, a voice and messages: they may name what is in the operator's account."""
        return {name: self.read(name) for name in (*_MEDIA, "voice", "messages") if name in self.fields}

    def list_options(self) -> dict[str, Any]:
        """Return the fields that may choose something at a server."""
        names = self.fields.keys() - CONTENT_FIELDS - {"model"}
        return {name: self.read(name) for name in self.fields if name in names}


def read_fields(data: bytes | bytearray) -> EndpointBody:
    """Read the top level of a body. Raises BadRequest."""
    try:
        fields = _decode_fields(data)
    except (msgspec.ValidationError, RecursionError):
        raise BadRequest("the body must be a JSON object, with `model`", None) from None
    except ValueError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", None) from None
    model = _read_value("model", fields["model"]) if "model" in fields else None
    if model is not None and (not isinstance(model, str) or not model):
        raise BadRequest("`model` must be the name of a model, a text that is not empty", "model")
    return EndpointBody(fields, model, bytes(fields.get("stream", b"")).strip() == b"true")


def _read_value(name: str, raw: Raw) -> Any:
    """Return a value. Raises BadRequest: only its ends were looked for, and a number may be too large, or a value too
    deep."""
    try:
        return _decode_value(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"`{name[:80]}` has a value that cannot be read: {error}", name[:80]) from None


def _estimate_tokens(raw: bytes) -> int:
    texts = sum(len(text) - 2 for text in _TEXT.findall(raw)) if b'"' in raw else 0
    return -(-texts // BYTES_PER_TOKEN) if texts else len(_NUMBER.findall(raw))
