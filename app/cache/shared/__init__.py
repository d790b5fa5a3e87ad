"""One call to a model for all the gateways that share a Redis: who leads it, who follows, and who takes it over."""

from app.cache.shared.coordinator import Coordinator

__all__ = ["Coordinator"]
