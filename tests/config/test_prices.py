"""Prices from a file, and limits of spending that would never be reached."""

import json
from pathlib import Path
from typing import Any

import pytest
from app.config.access import find_free_models, find_highest_prices
from app.config.load import load
from app.config.mistakes import find_mistakes
from app.config.prices import read_prices
from app.config.settings import Settings, SettingsError
from app.config.tables.prices import ModelPrice
from app.usage.meter import Price
from pydantic import ValidationError

from tests.each_case import each_case

PRICES = {
    "sample_spec": {"input_cost_per_token": "a text", "output_cost_per_token": 0.0},
    "gpt-5": {
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "litellm_provider": "openai",
        "mode": "chat",
    },
    "free": {"input_cost_per_token": 0, "output_cost_per_token": 0},
    "embedding": {"input_cost_per_token": 2e-08, "mode": "embedding"},
    "image": {"input_cost_per_image": 0.04, "mode": "image_generation"},
    "odd": {"input_cost_per_token": -1, "output_cost_per_token": True},
    "words": "none",
    "long": {
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "output_cost_per_reasoning_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "input_cost_per_token_above_200k_tokens_priority": 9e-06,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "cache_read_input_token_cost_above_200k_tokens": 2.5e-07,
        "input_cost_per_token_above_900_tokens": "many",
    },
    "tiered": {
        "mode": "chat",
        "tiered_pricing": [
            {"range": [32000.0, 1e6], "input_cost_per_token": 2e-06, "output_cost_per_token": 3e-06},
            {"range": [0, 32000], "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}
            | {"output_cost_per_reasoning_token": 4e-06},
            {"range": [2e6, 3e6]},
            {"range": "all"},
            "none",
        ],
    },
}
LONG = Price(1.25, 10.0, 0.125, 1.25, 10.0, ((200_000, Price(2.5, 15.0, 0.25, 2.5)),))
TIERED = Price(1.0, 2.0, 1.0, 1.0, 4.0, ((32_000, Price(2.0, 3.0, 2.0, 2.0)),))


def test_a_file_has_prices_of_a_million_tokens(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(PRICES))
    assert read_prices(file) == {
        "gpt-5": Price(1.25, 10.0, 0.125, 1.25),
        "free": Price(0.0, 0.0, 0.0, 0.0),
        "embedding": Price(0.02, 0.0, 0.02, 0.02),
        "long": LONG,
        "tiered": TIERED,
    }


def test_a_file_keeps_its_tiers_as_settings() -> None:
    assert ModelPrice.from_price(LONG).to_price() == LONG
    assert ModelPrice.from_price(TIERED).to_price() == TIERED


def test_own_tiers_are_sorted_and_each_has_its_own_number() -> None:
    row = {"input": 2, "output": 20}
    tiers = [row | {"above_tokens": 200}, row | {"above_tokens": 100, "cached_input": 1}]
    price = ModelPrice.model_validate({"input": 1, "output": 10, "tiers": tiers}).to_price()
    assert price == Price(1, 10, 1, 1, tiers=((100, Price(2, 20, 1, 2)), (200, Price(2, 20, 2, 2))))
    with pytest.raises(ValidationError, match="two tiers have the same above_tokens"):
        ModelPrice.model_validate({"input": 1, "output": 10, "tiers": [tiers[0], tiers[0]]})


def test_what_is_no_file_of_prices_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    with pytest.raises(ValueError, match=r"cannot be read \(No such file"):
        read_prices(file)
    for text, words in (("{", "is not valid JSON"), ("[]", "must be a JSON object"), ("[" * 10**5, "not valid JSON")):
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_prices(file)


def test_own_prices_count_before_those_of_the_file(tmp_path: Path) -> None:
    file, config = tmp_path / "prices.json", tmp_path / "parley.toml"
    file.write_text(json.dumps(PRICES))
    config.write_text(
        f"""
[prices]
file = "{file}"
[upstreams.u]
base_url = "http://127.0.0.1:1/v1"
[models.gpt-5]
upstreams = "u"
[models.mine]
upstreams = "u"
name = "gpt-5"
price = {{ input = 7, output = 8 }}
[models.other]
upstreams = "u"
name = "free"
fallbacks = ["mine", "gpt-5"]
limits = {{ spend_per_day = 1 }}
"""
    )
    settings = load({}, config)
    prices = {name: None if row.price is None else row.price.to_price() for name, row in settings.models.items()}
    assert prices == {
        "gpt-5": Price(1.25, 10.0, 0.125, 1.25),
        "mine": Price(7, 8, 7, 7),
        "other": Price(0, 0, 0, 0),
    }
    assert find_highest_prices(settings)["other"] == Price(7, 10, 7, 7)
    assert find_free_models(settings) == frozenset()
    file.write_text("no")
    with pytest.raises(SettingsError, match=r"prices\.file: .*is not valid JSON"):
        load({}, config)


@each_case(
    ("tool", "free"),
    [
        ({}, {"a", "b"}),
        ({"price": {"per_1000": 0}}, {"a", "b"}),
        ({"price": {"per_1000": 5}}, set()),
        ({"price": {"per_1000": 5}, "models": ["a*"]}, {"b"}),
        ({"price": {"per_1000": 5}, "models": ["other"]}, {"a", "b"}),
    ],
)
def test_a_model_with_searches_that_cost_something_is_not_free(tool: dict[str, Any], free: set[str]) -> None:
    for name in ("web_search", "web_fetch"):
        settings = Settings.model_validate(
            {
                "upstreams": {"u": {"base_url": "http://127.0.0.1:1/v1"}},
                "models": {one: {"upstreams": ["u"], "price": {"input": 0, "output": 0}} for one in ("a", "b")},
                "mcp_servers": {"web": {"command": "x"}},
                "hosted_tools": {name: {"mcp": "web", "tool": "t", **tool}},
            }
        )
        assert find_free_models(settings) == free


LIMITED: dict[str, Any] = {"spend_per_day": 1.0}
PRICED: dict[str, Any] = {"input": 0, "output": 0}
KEY: dict[str, Any] = {"sha256": "a" * 64, "limits": LIMITED}


@each_case(
    ("settings", "words"),
    [
        ({"models": {"m": {"limits": LIMITED}}}, ["models.m.limits", "the model 'm' is without a price", "input = 0"]),
        ({"models": {"m": {"limits": LIMITED, "price": PRICED}}}, []),
        ({"models": {"m": {"limits": LIMITED, "price": PRICED, "fallbacks": ["n"]}, "n": {}}}, ["the model 'n' is"]),
        (
            {
                "models": {
                    "m": {"limits": LIMITED, "price": PRICED, "fallbacks_on_context_length": ["alias"]},
                    "n": {"aliases": ["alias"], "price": PRICED, "fallbacks_on_content_filter": ["o"]},
                    "o": {"fallbacks": ["m"]},
                }
            },
            ["models.m.limits", "the model 'o' is"],
        ),
        ({"models": {"m": {}, "n": {"price": PRICED}}, "limits": LIMITED}, ["limits: ", "'m' is"]),
        ({"models": {"m": {}, "n": {}}, "keys": {"a": KEY}}, ["keys.a.limits", "the models 'm', 'n' are"]),
        ({"models": {"m": {}, "n": {"price": PRICED}}, "keys": {"a": KEY | {"models": ["n"]}}}, []),
        ({"models": {"m": {"upstreams": ["r"]}}, "limits": LIMITED}, []),
        ({"models": {"m": {"upstreams": ["r", "u"]}}, "limits": LIMITED}, ["'m' is"]),
        ({"models": {"m": {"profile": {"reports_cost": True}}}, "limits": LIMITED}, []),
        ({"models": {"m": {"price": PRICED}}, "limits": LIMITED, "passthrough": "u"}, ["passthrough serves models"]),
        ({"models": {"m": {"price": PRICED}}, "limits": LIMITED, "passthrough": "r"}, []),
        (
            {"models": {"m": {"price": PRICED}}, "passthrough": "u", "keys": {"a": KEY | {"models": ["m", "other"]}}},
            ["keys.a.limits", "passthrough serves models"],
        ),
        (
            {
                "models": {"m": {"price": PRICED, "aliases": ["n"]}},
                "passthrough": "u",
                "teams": {"t": {"models": ["n", "o*"]}},
                "keys": {"a": KEY | {"models": ["n", "other"], "team": "t"}},
            },
            ["keys.a.limits", "passthrough serves models"],
        ),
        (
            {
                "models": {"m": {"price": PRICED, "aliases": ["n"]}},
                "passthrough": "u",
                "teams": {"t": {"models": ["n"]}},
                "keys": {"a": KEY | {"models": ["n", "other"], "team": "t"}},
            },
            [],
        ),
        (
            {
                "models": {"m": {"price": PRICED, "limits": LIMITED}},
                "passthrough": "u",
                "keys": {"a": KEY | {"models": ["m"]}},
            },
            [],
        ),
    ],
)
def test_a_limit_of_spending_needs_prices(settings: dict[str, Any], words: list[str]) -> None:
    upstreams = {"u": {"base_url": "http://127.0.0.1:1/v1"}}
    upstreams["r"] = {"base_url": "http://127.0.0.1:2/v1", "kind": "openrouter"}
    models = {name: {"upstreams": ["u"], **row} for name, row in settings["models"].items()}
    mistakes = "\n".join(find_mistakes(Settings.model_validate({**settings, "upstreams": upstreams, "models": models})))
    assert bool(mistakes) is bool(words), mistakes
    assert [word for word in words if word not in mistakes] == []


def test_a_model_is_free_if_whatever_answers_for_it_costs_nothing() -> None:
    free: dict[str, Any] = {"input": 0, "output": 0}
    rows: dict[str, Any] = {
        "free": {"price": free},
        "with_free": {"price": free, "fallbacks": ["free"]},
        "with_paid": {"price": free, "fallbacks": ["with_free", "paid"]},
        "with_unknown": {"price": free, "fallbacks_on_content_filter": ["unknown"]},
        "paid": {"price": {"input": 0, "output": 1}},
        "thinking": {"price": {**free, "reasoning": 1}},
        "long": {"price": {**free, "tiers": [{"above_tokens": 10, "input": 0, "output": 1}]}},
        "unknown": {},
    }
    models = {name: {"upstreams": "u", **row} for name, row in rows.items()}
    settings = Settings.model_validate({"upstreams": {"u": {"base_url": "http://127.0.0.1:1"}}, "models": models})
    assert find_free_models(settings) == {"free", "with_free"}
