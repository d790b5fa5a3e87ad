"""Which settings of a model's server are part of the cache key."""

from typing import Any

import pytest
from app.config.registry import ModelRegistry
from app.config.settings import Settings

from tests.cache.cache_keys import HI, asked_of

SERVER: dict[str, Any] = {"base_url": "http://a.test/v1", "api_key": "sk-1", "headers": {"X-Variant": "a"}}


def key(**changed: Any) -> str:
    settings = Settings.model_validate({"upstreams": {"a": SERVER | changed}, "models": {"m": {"upstreams": ["a"]}}})
    route = ModelRegistry(settings, None).find("m")
    assert route is not None
    return asked_of(route, HI).key("shared")


@pytest.mark.parametrize(
    "changed",
    [
        {"base_url": "http://b.test/v1"},
        {"headers": {"X-Variant": "b"}},
        {"headers": {}},
        {"headers": {"X-Variant": "a", "X-Beta": "1"}},
    ],
    ids=str,
)
def test_another_server_or_another_variant_of_it_answers_for_itself(changed: dict[str, Any]) -> None:
    assert key(**changed) != key()


@pytest.mark.parametrize(
    "changed",
    [
        {"api_key": "sk-2"},
        {"headers": {"x-variant": "a"}},
        {"headers": {"X-Variant": "a", "API-Key": "k"}},
        {"headers": {"X-Variant": "a", "Authorization": "Bearer k"}},
        {"idle_seconds": 9, "max_connections": 7},
    ],
    ids=str,
)
def test_a_new_key_finds_what_the_old_one_had_answered(changed: dict[str, Any]) -> None:
    assert key(**changed) == key()
