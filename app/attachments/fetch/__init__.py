"""Fetch URLs that callers name, within limits of size, time, media type and address. Nothing else fetches them."""

from app.attachments.fetch.address_policy import Resolver
from app.attachments.fetch.fetcher import FetchedFile, Fetcher, FetchLimits

__all__ = ["FetchLimits", "FetchedFile", "Fetcher", "Resolver"]
