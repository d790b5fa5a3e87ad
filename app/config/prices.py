"""Read a file of prices in the form of LiteLLM's cost map: an object of models, each with the costs of one token
(https://github.com/BerriAI/litellm, model_prices_and_context_window.json)."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.usage.meter import Price

MAX_FILE_BYTES = 64 * 1024 * 1024
_TOKENS = 1_000_000
_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_CACHED, _WRITTEN = "cache_read_input_token_cost", "cache_creation_input_token_cost"


def read_prices(file: Path) -> dict[str, Price]:
    """Return the prices of a million tokens by the names of the models. Models that are not billed by their tokens are
    left out. Raises ValueError, which says what is wrong with the file."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"{file} has more than {MAX_FILE_BYTES} bytes")
        rows = json.loads(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not valid JSON ({error})") from error
    if not isinstance(rows, dict):
        raise ValueError(f"{file} must be a JSON object of models, as LiteLLM's cost map is")
    prices = {name: _read_price(row) for name, row in rows.items() if isinstance(row, dict)}
    return {name: price for name, price in prices.items() if price is not None}


def _read_price(row: Mapping[str, Any]) -> Price | None:
    given, generated = _read_cost(row, _INPUT), _read_cost(row, _OUTPUT)
    if given is None or (generated is None and row.get("mode") != "embedding"):
        return None
    cached, written = _read_cost(row, _CACHED), _read_cost(row, _WRITTEN)
    return Price(given, generated or 0.0, given if cached is None else cached, given if written is None else written)


def _read_cost(row: Mapping[str, Any], name: str) -> float | None:
    """Return what a million tokens cost; None if the file does not say it, or not as a number."""
    cost = row.get(name)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= 1 or not math.isfinite(cost):
        return None
    return round(cost * _TOKENS, 9)
