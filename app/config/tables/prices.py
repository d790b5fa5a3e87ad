"""`[prices]`, and the price of a model: what a million tokens cost."""

from typing import Annotated, Any, Self, TypeAlias

from msgspec.structs import asdict, replace
from pydantic import Field, field_validator

from app.chat.token_usage import MAX_COUNT
from app.config.tables.base import Table
from app.usage.meter import Price

MAX_PRICE = 1_000_000
"""The highest price of a million tokens."""
UNIT_PRICES = ("per_search", "per_minute", "per_image", "per_character")
"""Prices of what is no token: of a thousand searches, a minute of audio, an image, a million characters."""
_Amount: TypeAlias = Annotated[float, Field(ge=0, le=MAX_PRICE, allow_inf_nan=False)]


class _TokenPrices(Table):
    """The prices of a million tokens, all in one currency."""

    input: _Amount
    output: _Amount
    cached_input: _Amount | None = None
    cache_write: _Amount | None = None
    reasoning: _Amount | None = None

    def to_price(self) -> Price:
        """Return the price. Without a price of their own, tokens of the server's cache cost as much as other input."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        return Price(self.input, self.output, cached, written, self.reasoning)


class PriceTier(_TokenPrices):
    """The prices of requests with longer prompts."""

    above_tokens: int = Field(ge=1, le=MAX_COUNT)


class ModelPrice(_TokenPrices):
    tiers: tuple[PriceTier, ...] = ()
    per_search: _Amount = 0.0
    per_minute: _Amount = 0.0
    per_image: _Amount = 0.0
    per_character: _Amount = 0.0

    @field_validator("tiers")
    @classmethod
    def _sort(cls, tiers: tuple[PriceTier, ...]) -> tuple[PriceTier, ...]:
        numbers = [tier.above_tokens for tier in tiers]
        if len({*numbers}) < len(numbers):
            raise ValueError("two tiers have the same above_tokens")
        return tuple(sorted(tiers, key=lambda tier: tier.above_tokens))

    def to_price(self) -> Price:
        tiers = tuple((tier.above_tokens, tier.to_price()) for tier in self.tiers)
        units = {name: getattr(self, name) for name in UNIT_PRICES}
        return replace(super().to_price(), tiers=tiers, **units)

    @classmethod
    def from_price(cls, price: Price) -> Self:
        """Return the settings of a price that was read from a file."""
        tiers = [{"above_tokens": above, **_list_prices(tier)} for above, tier in price.tiers]
        units = {name: getattr(price, name) for name in UNIT_PRICES}
        return cls.model_validate({**_list_prices(price), **units, "tiers": tiers})


def _list_prices(price: Price) -> dict[str, Any]:
    return {name: value for name, value in asdict(price).items() if name not in ("tiers", *UNIT_PRICES)}


class PricesSettings(Table):
    file: str | None = None
    """A file of prices in the form of LiteLLM's cost map. A model's own `price` counts first."""
