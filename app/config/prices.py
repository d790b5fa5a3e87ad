"""Read a file of prices in the form of LiteLLM's cost map: an object of models, each with the costs of one token
(https://github.com/BerriAI/litellm, model_prices_and_context_window.json).

Longer prompts may have other prices, which are those of the whole request (`litellm_core_utils/llm_cost_calc` of the
same repository): fields such as `input_cost_per_token_above_200k_tokens`, or rows of `tiered_pricing` with a `range`.
Prices of other service levels (`…_priority`, `…_batches`) are not read.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from app.chat.token_usage import MAX_COUNT
from app.usage.meter import Price

MAX_FILE_BYTES = 64 * 1024 * 1024
_TOKENS = 1_000_000
_INPUT, _OUTPUT, _REASONING = "input_cost_per_token", "output_cost_per_token", "output_cost_per_reasoning_token"
_CACHED, _WRITTEN = "cache_read_input_token_cost", "cache_creation_input_token_cost"
_TIER_FIELD = re.compile(rf"({_INPUT}|{_OUTPUT}|{_CACHED}|{_WRITTEN})_above_([0-9]{{1,9}})(k?)_tokens")


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
    tiers = {above: _read_numbers(fields) for above, fields in _list_tiers(row)}
    known = {above: price for above, price in tiers.items() if price is not None}
    base = known.pop(0, None) or _read_numbers(row)
    if base is None:
        return None
    return replace(base, tiers=tuple(sorted(known.items())))


def _list_tiers(row: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Return the numbers of tokens above which a prompt has other prices, each with the fields that hold then."""
    listed = row.get("tiered_pricing")
    for tier in listed if isinstance(listed, list) else ():
        above = _read_range_start(tier)
        if above is not None:
            yield above, {_OUTPUT: row.get(_OUTPUT), "mode": row.get("mode"), **tier}
    found = [(match, value) for name, value in row.items() if (match := _TIER_FIELD.fullmatch(name)) is not None]
    for above in {_read_threshold(match) for match, _ in found}:
        fields = {match[1]: value for match, value in found if _read_threshold(match) == above}
        yield above, {**row, _REASONING: None, **fields}


def _read_range_start(tier: Any) -> int | None:
    match tier:
        case {"range": [int() | float() as start, _]} if 0 <= start <= MAX_COUNT:
            return int(start)
    return None


def _read_threshold(match: re.Match[str]) -> int:
    return min(MAX_COUNT, int(match[2]) * (1000 if match[3] else 1))


def _read_numbers(row: Mapping[str, Any]) -> Price | None:
    given, generated = _read_cost(row, _INPUT), _read_cost(row, _OUTPUT)
    if given is None or (generated is None and row.get("mode") != "embedding"):
        return None
    cached, written = _read_cost(row, _CACHED), _read_cost(row, _WRITTEN)
    return Price(
        given,
        generated or 0.0,
        given if cached is None else cached,
        given if written is None else written,
        _read_cost(row, _REASONING),
    )


def _read_cost(row: Mapping[str, Any], name: str) -> float | None:
    """Return what a million tokens cost; None if the file does not say it, or not as a number."""
    cost = row.get(name)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= 1 or not math.isfinite(cost):
        return None
    return round(cost * _TOKENS, 9)
