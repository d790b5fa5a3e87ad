"""The part of each format in the OpenAPI document."""

from importlib import import_module
from typing import Any

import pytest
from app.formats import FORMATS
from app.formats.openapi import FormatPart, describe, describe_errors, describe_operation, event_stream, select


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_describes_its_replies_frames_errors_and_operations(name: str) -> None:
    part: FormatPart = import_module(f"{FORMATS[name].package}.openapi").PART
    names = [model.__name__ for model in (*part.replies, part.error, *part.more)]
    assert part.prefix and part.replies and len(set(names)) == len(names)
    for path, methods in part.describe_paths().items():
        assert path.startswith("/v1")
        for operation in methods.values():
            assert {"200", "404", "500"} <= operation["responses"].keys()
            assert operation["summary"] and operation["operationId"] and operation["tags"]


def test_no_two_formats_have_the_same_prefix() -> None:
    parts = [import_module(f"{row.package}.openapi").PART for row in FORMATS.values()]
    assert len({part.prefix for part in parts}) == len(parts)


def test_an_operation_has_a_body_and_parameters_only_if_they_are_given() -> None:
    names = ("chat", "Create", "create")
    ok: Any = {"200": ("Done", {"application/json": {}})}
    errors = describe_errors(select("404", status_400="Wrong"), "ErrorBody")
    plain = describe_operation(names, ok, errors)
    assert plain.keys() == {"tags", "summary", "operationId", "responses"}
    assert [*plain["responses"]] == ["200", "400", "404"]
    assert plain["responses"]["400"]["description"] == "Wrong"
    full = describe_operation(names, ok, {}, body="ChatRequest", parameters=[{"name": "a"}])
    assert full["parameters"] == [{"name": "a"}]
    assert full["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ChatRequest"}


def test_a_stream_holds_one_of_its_components() -> None:
    def data(*names: str) -> Any:
        event = event_stream(*names)["text/event-stream"]["schema"]["anyOf"][0]
        return event["properties"]["data"]["contentSchema"]

    assert data("A") == {"$ref": "#/components/schemas/A"}
    assert [one["$ref"][-1] for one in data("A", "B")["anyOf"]] == ["A", "B"]


def test_the_errors_of_a_route_have_the_gateways_own_form() -> None:
    assert {status: row["model"].__name__ for status, row in describe(404, 422).items()} == {
        404: "ErrorBody",
        422: "ErrorBody",
    }
