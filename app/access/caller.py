"""`Caller`: who sent a request, and what this caller may do."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from app.chat.messages import CHAT_PATHS
from app.errors import Forbidden
from app.limits.values import NO_LIMITS, Limits, Team
from app.params import find_routing_params
from app.validation.violations import json_path


class ModelGlobs(Struct, frozen=True):
    """The models that a caller may use, as patterns of `fnmatch`: `qwen*`, `gpt-4o`. Case matters."""

    patterns: tuple[str, ...]
    within: "ModelGlobs | None" = None
    """Those of the caller's team, of which one must match too."""

    def match(self, *names: str) -> bool:
        """Whether a pattern matches one of the names by which the model is known."""
        own = any(fnmatchcase(name, pattern) for name in names for pattern in self.patterns)
        return own and (self.within is None or self.within.match(*names))


class Caller(Struct, frozen=True):
    name: str
    """The name of the API key; "" if the gateway has no keys."""
    scope: str
    """Callers with the same scope share stored replies if `cache.scope` is `caller`."""
    admin: bool = False
    models: ModelGlobs | None = None
    """None: all models."""
    limits: Limits = NO_LIMITS
    team: Team | None = None

    def check_model(self, *names: str) -> None:
        """Check that this caller may use the model that has these names. Raises Forbidden."""
        if self.models is not None and not self.models.match(*names):
            text = f"the API key {self.name!r} may not use the model {names[0][:200]!r}"
            if not self.models.patterns:
                raise Forbidden(f"{text}: it is not for models. Send another key", "model")
            raise Forbidden(
                f"{text}; it may use: {', '.join(self.models.patterns)}"
                f"{_describe_team(self.team, self.models.within)}. "
                "The gateway's operator can add the model to `models` of the key",
                "model",
            )

    def check_params(self, params: Mapping[str, Any], extra_path: str = CHAT_PATHS.extra_body) -> None:
        """Check that the parameters of a request do not choose another model, or an address, if this caller may not use
        all models. `extra_path` is that of `extra_body`. Raises Forbidden."""
        extra = params.get("extra_body") if self.models is not None else None
        found = find_routing_params(extra) if extra else []
        if found:
            path = json_path(found[0], extra_path)
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise Forbidden(
                f"{path}{more} chooses a model, a provider or an address, which the API key {self.name!r} may not do, "
                "because it may not use all models: leave it out. The gateway's operator can set it in `defaults` of "
                "the model",
                path,
            )

    def select_models(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that this caller may use."""
        return [name for name in names if self.models is None or self.models.match(name)]


def _describe_team(team: Team | None, models: ModelGlobs | None) -> str:
    return (
        "" if team is None or models is None else f", of those of its team {team.name!r}: {', '.join(models.patterns)}"
    )


ANONYMOUS = Caller("", "")
"""Every caller of a gateway that has no keys."""
