"""The two spellings of the API's fields, `generationConfig` and `generation_config`.

Google's servers read both at every depth, and SDKs mix them in one body. They also read null as absent, and an object
in the place of a list as a list of one. `canonicalize` gives one form to all of it; `spell` gives the path of a field
in the caller's own spelling back, for errors.
"""

import re
from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from app.errors import Violation
from app.formats.request_memory import FirstEntry, map_entries

_WORDS = """
    inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse
    thoughtSignature videoMetadata mediaResolution partMetadata mimeType displayName fileUri partialArgs willContinue
    systemInstruction generationConfig toolConfig safetySettings cachedContent serviceTier
    functionDeclarations parametersJsonSchema responseJsonSchema googleSearch googleSearchRetrieval urlContext
    codeExecution googleMaps fileSearch computerUse mcpServers enterpriseWebSearch parallelAiSearch exaAiSearch
    functionCallingConfig allowedFunctionNames includeServerSideToolInvocations retrievalConfig
    streamFunctionCallArguments streamableHttpTransport
    topP topK maxOutputTokens stopSequences presencePenalty frequencyPenalty candidateCount responseLogprobs
    responseMimeType responseSchema responseModalities speechConfig imageConfig audioTimestamp
    enableAffectiveDialog routingConfig modelSelectionConfig thinkingConfig includeThoughts thinkingBudget
    thinkingLevel enableEnhancedCivicAnswers modelConfig modelArmorConfig
    generateContentRequest outputDimensionality taskType autoTruncate embedContentConfig
"""
_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")


def to_snake(name: str) -> str:
    return _SNAKE.sub("_", name).lower()


_CAMEL: dict[str, str] = {to_snake(name): name for name in _WORDS.split()} | {
    "response_json_schema": "responseJsonSchema",
    "_responseJsonSchema": "responseJsonSchema",
    "_response_json_schema": "responseJsonSchema",
}
"""The names of the API with more than one word, by those that callers write instead."""
_RENAMED = _CAMEL.keys()
_OPAQUE = frozenset(
    {
        *("args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"),
        *("labels", "partMetadata", "chat_template_kwargs", "response_format", "logit_bias", "cache"),
    }
)
"""Fields whose value is the caller's own, or that have a form of their own."""
_LISTS = frozenset(
    {
        *("contents", "parts", "tools", "functionDeclarations", "safetySettings", "stopSequences", "requests"),
        *("allowedFunctionNames", "responseModalities"),
    }
)
_TEXT_LISTS = frozenset(("stopSequences", "allowedFunctionNames", "responseModalities"))
_NESTED = (list, dict)


def canonicalize(value: Any) -> Any:
    """Return a value in the documentation's spelling, without nulls. Entries that are known are not read again."""
    if isinstance(value, list):
        is_known = value and type(value[0]) is FirstEntry
        return map_entries(value, _canonicalize_all) if is_known else _canonicalize_all(value)
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    fields: dict[str, Any] = value
    for given, inner in fields.items():
        name = _CAMEL.get(given, given)
        if inner is None or (name != given and fields.get(name) is not None):
            continue
        out[name] = inner if name in _OPAQUE else _read_list(name, canonicalize(inner))
    return out


def _canonicalize_all(values: Sequence[Any]) -> list[Any]:
    """Return values in the documentation's spelling. Where all are in it, they are the same objects."""
    return list(values) if _are_canonical(values) else [canonicalize(value) for value in values]


def _are_canonical(values: Sequence[Any]) -> bool:
    """Whether nothing in these values has another name, or is null or an object in the place of a list. They are looked
    at level by level: a call for each object would cost more."""
    level: Sequence[Any] = values
    while level:
        inner: list[Any] = []
        for value in level:
            if isinstance(value, list):
                inner += value
                continue
            if not isinstance(value, dict):
                continue
            if not _RENAMED.isdisjoint(value):
                return False
            for name, member in value.items():
                if isinstance(member, str):
                    if name in _TEXT_LISTS:
                        return False
                elif member is None or (name in _LISTS and not isinstance(member, list)):
                    return False
                elif name not in _OPAQUE:
                    inner.append(member)
        level = inner
    return True


def name_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the documentation's names of its own fields. What is in them stays as it is."""
    out: dict[str, Any] = {}
    for given, value in fields.items():
        name = _CAMEL.get(given, given)
        if out.get(name) is None and (name == given or fields.get(name) is None):
            out[name] = value
    return out


def has_doubles(body: dict[str, Any], canonical: dict[str, Any]) -> bool:
    """Whether a body has a field in both spellings, at any depth. Only one of the two is read. `canonical` is the body
    as it was read."""
    # 0 is a value in which there is nothing to look for; null would be no field.
    rest = {name: 0 if _is_unchanged(value, canonical.get(name)) else value for name, value in body.items()}
    contents = rest.get("contents")
    if not isinstance(contents, list):
        return _has_doubles(rest)
    doubled: list[bool] = map_entries(contents, _find_doubles)
    return any(doubled) or _has_doubles({**rest, "contents": 0})


def _is_unchanged(value: Any, read: Any) -> bool:
    """Whether a list has the same objects as what was read of it, in which there are no doubles."""
    both = isinstance(value, list) and isinstance(read, list) and len(value) == len(read)
    return both and all(map(is_, value, read))


def _find_doubles(values: Sequence[Any]) -> list[bool]:
    return [_has_doubles(value) for value in values]


def _has_doubles(value: Any) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += [inner for inner in one if isinstance(inner, _NESTED)]
        elif isinstance(one, dict):
            if not _RENAMED.isdisjoint(one):
                given = [name for name, inner in one.items() if inner is not None]
                if len({_CAMEL.get(name, name) for name in given}) < len(given):
                    return True
            waiting += [inner for name, inner in one.items() if isinstance(inner, _NESTED) and name not in _OPAQUE]
    return False


def _read_list(name: str, value: Any) -> Any:
    if name not in _LISTS:
        return value
    return [value] if isinstance(value, dict) or (name in _TEXT_LISTS and isinstance(value, str)) else value


_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def spell(path: str, body: Any) -> str:
    """Return a path of the documentation's spelling as the caller has spelled it."""
    out, at, value = "", 0, body
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return out + path[at:]
        at = step.end()
        if step[2] is None:
            name = _find_name(step[1], value)
            value = value.get(name) if isinstance(value, dict) else None
            out += f".{name}" if out else name
        elif not isinstance(value, dict):  # an object in the place of a list has no number
            value = value[int(step[2])] if isinstance(value, list) and int(step[2]) < len(value) else None
            out += step[0]
    return out


def _find_name(name: str, value: Any) -> str:
    """Return the key of an object that means this field."""
    if not isinstance(value, dict) or value.get(name) is not None:
        return name
    return next((key for key, camel in _CAMEL.items() if camel == name and value.get(key) is not None), name)


def spell_all(violations: Iterable[Violation], body: Any) -> list[Violation]:
    return [Violation(spell(one.path, body), one.message) for one in violations]
