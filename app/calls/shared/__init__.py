"""Single-flight across all gateways that share a Redis: one gateway leads a call, others follow it."""

from app.calls.shared.coordinator import Coordinator

__all__ = ["Coordinator"]
