"""Guards: what looks at requests before a model sees them, and at replies before a client does."""

from app.guards.admission import RequestFacts, RequestGuard
from app.guards.guards import Guards

__all__ = ["Guards", "RequestFacts", "RequestGuard"]
