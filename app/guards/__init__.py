"""Guards: what looks at requests before a model sees them, and at replies before a client does."""

from app.guards.admission import RequestGuard
from app.guards.guards import Guards
from app.guards.questions import RequestFacts

__all__ = ["Guards", "RequestFacts", "RequestGuard"]
