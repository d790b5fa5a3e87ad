"""Embeddings of the Gemini API as requests and answers of `POST /v1/embeddings`.

https://ai.google.dev/api/embeddings. `taskType` and `title` say nothing to other servers, and are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.errors import InvalidInput, Violation
from app.formats.gemini.schema import DATA_FIELDS, GeminiContent
from app.formats.gemini.spelling import canonicalize, spell_all
from app.validation.violations import to_violations

Json = dict[str, Any]
_STRICT = ConfigDict(extra="allow", strict=True)


def _read_whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


_Dimensions = Annotated[int | None, Field(ge=1, le=1_000_000), BeforeValidator(_read_whole)]


class GeminiEmbedConfig(BaseModel):
    model_config = _STRICT

    outputDimensionality: _Dimensions = None


class GeminiEmbedRow(BaseModel):
    """What one embedding is made of."""

    model_config = _STRICT

    content: GeminiContent
    outputDimensionality: _Dimensions = None
    embedContentConfig: GeminiEmbedConfig | None = None
    """Where Vertex AI has the same."""
    taskType: Any = None
    title: Any = None

    @property
    def dimensions(self) -> int | None:
        config = self.embedContentConfig
        return self.outputDimensionality or (None if config is None else config.outputDimensionality)


class EmbedContentRequest(GeminiEmbedRow):
    """The body of `:embedContent`."""


class BatchEmbedContentsRequest(BaseModel):
    """The body of `:batchEmbedContents`."""

    model_config = _STRICT

    requests: list[GeminiEmbedRow] = Field(min_length=1)


def parse_embed_body(given: Json, model: str, *, batch: bool) -> Json:
    """Return the body of the request to `/v1/embeddings`. Raises InvalidInput."""
    body = canonicalize(given)
    schema: type[BaseModel] = BatchEmbedContentsRequest if batch else EmbedContentRequest
    try:
        parsed: Any = schema.model_validate(body)
    except ValidationError as error:
        raise InvalidInput(spell_all(to_violations(error, body, schema=schema), given)) from None
    rows = [(f"requests[{place}].", one) for place, one in enumerate(parsed.requests)] if batch else [("", parsed)]
    violations = list(_check(rows))
    if violations:
        raise InvalidInput(spell_all(violations, given))
    texts = [_read_text(one.content) for _, one in rows]
    dimensions = rows[0][1].dimensions
    return {
        "model": model,
        "input": texts,
        "encoding_format": "float",
        **({"dimensions": dimensions} if dimensions is not None else {}),
    }


def _check(rows: Sequence[tuple[str, GeminiEmbedRow]]) -> Iterator[Violation]:
    for path, one in rows:
        for place, part in enumerate(one.content.parts or ()):
            name = next((name for name in DATA_FIELDS[1:] if getattr(part, name) is not None), None)
            if name is not None:
                yield Violation(f"{path}content.parts[{place}].{name}", "must be a text")
        if not _read_text(one.content):
            yield Violation(f"{path}content", "must have a text")
        if one.dimensions != rows[0][1].dimensions:
            yield Violation(f"{path}outputDimensionality", "must be the same in all requests of a batch")


def _read_text(content: GeminiContent) -> str:
    return "".join(part.text or "" for part in content.parts or ())


def write_embeddings(answer: Any, count: int, *, batch: bool) -> Json:
    """Return the answer to a request with so many texts for the client. Raises ValueError if the server's is not one of
    `/v1/embeddings`, or if it does not say which vector is of which text."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("the answer has no embeddings")
    if len(rows) != count:
        raise ValueError(f"it has {len(rows)} embeddings for {count} texts")
    vectors = [row.get("embedding") for row in _sort_rows(rows)]
    if not all(isinstance(vector, list) for vector in vectors):
        raise ValueError("the answer has embeddings that are no lists of numbers")
    written = [{"values": vector} for vector in vectors]
    found: Json = {"embeddings": written} if batch else {"embedding": written[0]}
    usage = answer.get("usage")
    return found | (_write_usage(usage) if isinstance(usage, dict) else {})


def is_own_answer(answer: Any) -> bool:
    """Whether an answer is that of a server of this API."""
    if not isinstance(answer, dict) or "data" in answer:
        return False
    several = answer.get("embeddings")
    return isinstance(answer.get("embedding"), dict) or (
        isinstance(several, list) and all(isinstance(one, dict) for one in several)
    )


def _sort_rows(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the rows in the order of the texts: by `index`, which the client's form has no place for. Without any,
    that is their own order. Raises ValueError."""
    given = [row.get("index") for row in rows]
    if all(index is None for index in given):
        return rows
    placed = {index: row for index, row in zip(given, rows, strict=True) if type(index) is int}
    if placed.keys() != set(range(len(rows))):
        raise ValueError("each of its embeddings must have the `index` of another text")
    return [placed[place] for place in range(len(rows))]


def _write_usage(usage: Mapping[str, Any]) -> Json:
    prompt = usage.get("prompt_tokens", usage.get("total_tokens"))
    if type(prompt) is not int:
        return {}
    total = usage.get("total_tokens")
    return {"usageMetadata": {"promptTokenCount": prompt, "totalTokenCount": total if type(total) is int else prompt}}
