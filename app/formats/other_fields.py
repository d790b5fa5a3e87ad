"""Fields of a request that its endpoint does not have.

One that has another name in another API is read under its name here, with a warning. One that misspells a field is
refused: it would be a guess to read it, and without it the reply would be another one than the caller wants.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from app.chat.messages import NOTHING
from app.errors import Violation
from app.validation.nearest import find_correct_spelling
from app.validation.violations import MAX_SUGGESTED, UNKNOWN, json_path

Json = dict[str, Any]

NESTED_PARAMS = {
    "extra_body": "is not a field of this body: put its keys at the top level",
    "generate_cfg": "is a field of POST /v1/chat: put its keys at the top level",
}
"""Objects that hold parameters elsewhere, and are refused where parameters are at the top level."""
_FIELDS_OF_APIS = frozenset(
    {
        *("speed", "betas", "container", "containers", "diagnostics", "inference_geo", "thread", "workspace_id"),
        *("background", "client_metadata", "conversation", "include", "input", "instructions", "prompt", "system"),
        *("contents", "options", "session", "think", "tags", "template", "text", "thinking", "truncation"),
    }
)
"""Fields of other APIs that are similar to fields of some endpoint, and are never treated as misspellings."""


class RenamedFields(Struct, frozen=True):
    body: Json
    """The request with the names of this endpoint."""
    names: Mapping[str, str] = {}
    """The caller's name of each field that was renamed, by its name here."""
    warnings: tuple[str, ...] = ()


def rename_fields(body: Json, names: Mapping[str, str]) -> RenamedFields:
    """Rename the fields that `names` has, unless the request has them under both names, or another one already has that
    name."""
    renamed: dict[str, str] = {}
    for given, name in names.items():
        if body.get(given) is not None and body.get(name) is None and name not in renamed:
            renamed[name] = given
    if not renamed:
        return RenamedFields(body)
    own = {given: name for name, given in renamed.items()}
    rest = {key: value for key, value in body.items() if key not in renamed}
    warnings = [f"{given} was read as {name}, its name here" for name, given in renamed.items()]
    return RenamedFields({own.get(key, key): value for key, value in rest.items()}, renamed, tuple(warnings))


def warn_of_unknown_fields(
    fields: Json, known: Collection[str], path: str = "", instead: Mapping[str, str] = NOTHING
) -> Iterator[str]:
    """Yield a warning for each field that is ignored. `path` is that of the object, and `instead` says what some fields
    of other APIs are here."""
    for key, value in fields.items():
        if key not in known and value is not None:
            hint = f": its name here is {instead[key]}" if key in instead else ""
            yield f"{json_path([key], path)} is not known here and was ignored{hint}"


def find_misspelt_fields(
    unknown: Iterable[str], known: Iterable[Collection[str]], given: Collection[str]
) -> list[Violation]:
    """Return a violation for each field that misspells one of `known`, the first of which are looked through first. A
    field that the request has, is not suggested."""
    found = []
    for key in islice(unknown, MAX_SUGGESTED):
        suggestion = find_misspelt(key, known)
        if suggestion is not None and suggestion not in given:
            found.append(Violation(json_path([key]), f"{UNKNOWN}; did you mean `{suggestion}`?"))
    return found


def find_misspelt(key: str, known: Iterable[Collection[str]]) -> str | None:
    """Return the field that `key` misspells."""
    if key in _FIELDS_OF_APIS:
        return None
    return next((found for names in known if (found := find_correct_spelling(key, names)) is not None), None)
