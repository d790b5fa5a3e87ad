"""What the Gemini API needs beside its body and its replies."""

import json
from typing import Any

import pytest
from app.config.registry import targets
from app.config.settings import Settings
from app.upstream.api import Api
from app.upstream.gemini.api import API
from pydantic import ValidationError

from tests.each_case import each_case


@each_case(
    ("given", "complete"),
    [
        ("http://a.test", "http://a.test/v1beta"),
        ("http://a.test/", "http://a.test/v1beta"),
        ("http://a.test/v1", "http://a.test/v1"),
        ("http://a.test/v1/projects/p/locations/l/publishers/google",) * 2,
    ],
)
def test_a_base_url_without_a_path_gets_the_version(given: str, complete: str) -> None:
    assert API.complete_base_url(given) == complete


@each_case(
    ("model", "path"),
    [
        ("gemini-3", "/models/gemini-3"),
        ("models/gemini-3", "/models/gemini-3"),
        ("org/name:8b", "/models/org/name:8b"),
        ("a b?c#d", "/models/a%20b%3Fc%23d"),
        ("../../other", "/models/%2E%2E/%2E%2E/other"),
    ],
)
def test_the_path_has_the_name_of_the_model_and_leads_nowhere_else(model: str, path: str) -> None:
    assert API.find_path(model, streams=True) == f"{path}:streamGenerateContent?alt=sse"
    assert API.find_path(model, streams=False) == f"{path}:generateContent"


def test_the_key_has_a_header_of_its_own_unless_it_is_a_bearer_token() -> None:
    assert API.make_headers("k") == {"x-goog-api-key": "k"}
    assert API.make_headers("k", "bearer") == {"authorization": "Bearer k"}


def test_a_query_of_the_address_follows_that_of_the_path() -> None:
    row = {"base_url": "http://a.test/v1?tag=1", "api": "gemini"}
    target = targets(Settings.model_validate({"upstreams": {"a": row}}))["a"]
    assert str(target.url("/models/m:f?alt=sse")) == "http://a.test/v1/models/m:f?alt=sse&tag=1"
    assert str(target.url("/models")) == "http://a.test/v1/models?tag=1"


def test_the_kind_of_a_server_of_this_api_is_gemini() -> None:
    settings = Settings.model_validate({"upstreams": {"a": {"base_url": "http://a.test", "api": "gemini"}}})
    assert settings.upstreams["a"].kind == "gemini"


def test_the_address_of_googles_other_endpoint_is_refused() -> None:
    row = {"base_url": "https://a.test/v1beta/openai/", "api": "gemini"}
    with pytest.raises(ValidationError, match="leave out its /openai"):
        Settings.model_validate({"upstreams": {"a": row}})


def test_tokens_are_counted_of_the_request_for_a_reply() -> None:
    made = API.make_count_request("models/m", b'{"contents":[1],"tools":[]}')
    assert made is not None
    assert made[0] == "/models/m:countTokens"
    assert json.loads(made[1]) == {"generateContentRequest": {"model": "models/m", "contents": [1], "tools": []}}
    assert Api("/x", API.build, API.make_reader).make_count_request("m", b"{}") is None


@each_case(
    ("row", "read"),
    [
        ({"name": "models/m", "inputTokenLimit": 8}, {"id": "m", "context_length": 8}),
        ({"name": "publishers/google/models/m"}, {"id": "publishers/google/models/m"}),
        ({"name": 1}, {}),
    ],
)
def test_a_row_of_the_list_of_models_gets_the_usual_fields(row: dict[str, Any], read: dict[str, Any]) -> None:
    assert API.read_listed is not None
    assert API.read_listed(row) == {**row, **read}
