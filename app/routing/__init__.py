"""Which upstream answers a request, and what happens when it fails: pools, circuit breakers, retries and fallbacks."""

from app.routing.attempts import RETRY_SECONDS, PrepareFallback, UpstreamCaller
from app.routing.health_checks import HealthCheck, HealthChecks
from app.routing.pool import UpstreamStates
from app.routing.retry_budget import RetryBudget
from app.routing.route import Deployment, HedgeDelay, ModelRoute, PassingRequest, PreparedRequest

__all__ = [
    "RETRY_SECONDS",
    "Deployment",
    "HealthCheck",
    "HealthChecks",
    "HedgeDelay",
    "ModelRoute",
    "PassingRequest",
    "PrepareFallback",
    "PreparedRequest",
    "RetryBudget",
    "UpstreamCaller",
    "UpstreamStates",
]
