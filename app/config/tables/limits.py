"""`[limits]`: how much all callers together, or one key, team, issuer or model, may use."""

from typing import Annotated, TypeAlias

from pydantic import Field

from app.config.tables.base import Table

MAX_LIMIT = 10**15
"""The highest limit of requests, tokens or replies: Redis counts exactly up to 2**53."""
MAX_SPENDING = 1_000_000_000
"""The highest limit of spending in a day or month: it is counted in billionths, in 64 bits."""
_Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
_Spending: TypeAlias = Annotated[float, Field(ge=0, le=MAX_SPENDING, allow_inf_nan=False)]


class LimitSettings(Table):
    requests_per_minute: _Limit | None = None
    tokens_per_minute: _Limit | None = None
    concurrent_streams: _Limit | None = None
    spend_per_day: _Spending | None = None
    spend_per_month: _Spending | None = None

    @property
    def limits_spending(self) -> bool:
        return self.spend_per_day is not None or self.spend_per_month is not None


class GatewayLimits(LimitSettings):
    """Those of all callers together, and of each request with files."""

    max_upload_bytes: int = Field(default=25 * 1024 * 1024, ge=1024)
    """OpenAI's own limit of a audio file (platform.openai.com/docs/guides/speech-to-text)."""
    max_upload_parts: int = Field(default=64, ge=1)
