"""`Limits`: how much a caller, a model or the whole gateway may use."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """None: no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_streams: int | None = None
    """Replies in progress at the same time, streamed or whole."""
    spend_per_day: float | None = None
    """In the currency of the models' prices, for each day in UTC."""
    spend_per_month: float | None = None


NO_LIMITS = Limits()
