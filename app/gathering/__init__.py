"""What a request's media become: fetched, read and scaled, all of them at once, each URL once."""

from app.gathering.gatherer import Gatherer, GatherLimits

__all__ = ["GatherLimits", "Gatherer"]
