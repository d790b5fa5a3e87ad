"""Limits of requests, tokens, replies in progress and spending.

Each limit belongs to an API key, a model or the whole gateway. A request reserves all its limits at once, or none.
"""

from app.limits.limiter import Limiter, Reservation
from app.limits.values import NO_LIMITS, Limits

__all__ = ["NO_LIMITS", "Limiter", "Limits", "Reservation"]
