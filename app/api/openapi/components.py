"""Write pydantic types as the components of the OpenAPI document, in a form that client generators can read.

Generators name their classes after titles, so only components have titles, and each has its own. They take a field with
a default for one that is always there, so defaults are in the descriptions.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import override

from app.formats.openapi import REF, Json

_NOTHING: Json = {"not": {}}
"""The schema of a branch that only makes an error message."""


class _SchemaWriter(GenerateJsonSchema):
    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Components:
    """The component schemas of one document, by name."""

    def __init__(self, schemas: Json) -> None:
        """`schemas` holds those that FastAPI wrote; others are added to it."""
        self.schemas = schemas
        for name, schema in schemas.items():
            _finish(schema, name)

    def add(self, type_: Any, name: str | None = None, prefixes: Mapping[str, str] | None = None, **fields: Any) -> str:
        """Add a type, and all models that it uses, and return its name. `prefixes` are for the names of models that
        other formats also have, by the name. `fields` are added to the schema."""
        schema = TypeAdapter(type_).json_schema(ref_template=REF, schema_generator=_SchemaWriter)
        names = dict(prefixes or {})
        models = schema.pop("$defs", {})
        for own, model in models.items():
            self._put(names.get(own, own), model, names)
        name = name or str(schema["title"])
        self._put(name, {**schema, **fields}, names)
        return name

    def add_format(self, prefix: str, type_: Any) -> tuple[str, dict[str, str]]:
        """Add the models of a format, under names that begin with the prefix. `type_` is that of its list of messages.
        Return the name of one message's component, and the new names by the old ones."""
        schema = TypeAdapter(type_).json_schema(ref_template=REF, schema_generator=_SchemaWriter)
        names = {own: own if own.startswith(prefix) else prefix + own for own in schema.get("$defs", {})}
        for own, model in schema.get("$defs", {}).items():
            self._put(names[own], model, names)
        item = schema["items"]
        if "$ref" in item:
            return names[item["$ref"].rpartition("/")[2]], names
        self._put(f"{prefix}Item", item, names)
        return f"{prefix}Item", names

    def _put(self, name: str, schema: Json, names: Mapping[str, str]) -> None:
        _rename(schema, {REF.format(model=old): REF.format(model=new) for old, new in names.items()})
        _finish(schema, name)
        known = self.schemas.setdefault(name, schema)
        assert known == schema, f"two different schemas have the name {name}"


def _finish(schema: Json, name: str) -> None:
    """Give a component its title, and take from it what generators misread."""
    for inner in walk(schema):
        inner.pop("title", None)
        if "oneOf" in inner and "discriminator" not in inner:  # pydantic chooses by a function, not by the schemas
            inner["anyOf"] = [one for one in inner.pop("oneOf") if one != _NOTHING]
        for field in inner.get("properties", {}).values():
            _describe_default(field)
    schema["title"] = name


def _describe_default(field: Json) -> None:
    if "default" in field and (default := field.pop("default")) not in (None, [], {}):
        text = f"{field.get('description', '').rstrip()} Default: `{json.dumps(default)}`."
        field["description"] = text.strip()


def walk(schema: Any) -> Iterator[Json]:
    """Yield every schema inside a schema, itself included; not the values of `examples`, nor those of `properties`."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            for inner in value.values():
                yield from walk(inner)
        elif key in ("items", "additionalProperties", "not", "contentSchema"):
            yield from walk(value)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for inner in value:
                yield from walk(inner)


def _rename(schema: Json, names: Mapping[str, str]) -> None:
    for inner in walk(schema):
        if "$ref" in inner:
            inner["$ref"] = names.get(inner["$ref"], inner["$ref"])
        mapping = inner.get("discriminator", {}).get("mapping")
        if mapping:
            inner["discriminator"]["mapping"] = {tag: names.get(one, one) for tag, one in mapping.items()}
