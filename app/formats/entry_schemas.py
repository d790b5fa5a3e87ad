"""`EntrySchema`: how the entries of a conversation are validated.

Nearly all of them have a plain form, which msgspec reads in a third of the time that pydantic takes. Whatever has
another form is read by pydantic, whose schema is complete, and which says what is wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import TypeAdapter, ValidationError


class EntrySchema(Struct, frozen=True):
    whole: TypeAdapter[Any]
    """Of the list."""
    each: TypeAdapter[Any]
    """Of an entry."""
    field: str = ""
    plain: Mapping[str, type[Struct]] = {}
    """Plain forms of entries, by the value of this field. Each has a part of the schema's fields, and no other ones."""


def validate_rest(entries: Sequence[Any], known: int, schema: EntrySchema) -> list[Any]:
    """Validate those entries of a list that follow the first `known`, which are valid.

    Raises ValidationError, the same as for the list as a whole.
    """
    if entries and (known or schema.plain):
        try:
            return _validate_each(entries[known:], schema)
        except ValidationError:
            pass  # its places are those in an entry
    valid: list[Any] = schema.whole.validate_python(entries)
    return valid[known:]


def _validate_each(entries: Sequence[Any], schema: EntrySchema) -> list[Any]:
    valid: list[Any] = []
    for entry in entries:
        kind = entry.get(schema.field) if isinstance(entry, dict) else None
        plain = schema.plain.get(kind) if isinstance(kind, str) else None
        if plain is not None:
            try:
                valid.append(msgspec.convert(entry, plain))
                continue
            except (msgspec.ValidationError, UnicodeEncodeError):
                pass  # it has another form, or is not valid; half of a surrogate pair is no word
        valid.append(schema.each.validate_python(entry))
    return valid
