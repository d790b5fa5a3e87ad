"""The only reader of URLs that a caller names: size, time, type and address limits."""

from app.fetch.addresses import Resolver
from app.fetch.fetcher import Fetched, Fetcher, FetchLimits

__all__ = ["FetchLimits", "Fetched", "Fetcher", "Resolver"]
