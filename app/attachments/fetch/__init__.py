"""The only reader of URLs that a caller names: size, time, type and address limits."""

from app.attachments.fetch.address_policy import Resolver
from app.attachments.fetch.fetcher import FetchedFile, Fetcher, FetchLimits

__all__ = ["FetchLimits", "FetchedFile", "Fetcher", "Resolver"]
