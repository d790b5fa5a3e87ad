"""`Caller`: who sent a request, and what this caller may do."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from app.chat.messages import CHAT_PATHS
from app.errors import Forbidden
from app.limits.values import NO_LIMITS, Limits, Team, describe_caller
from app.observe.request_record import ISSUER_SEPARATOR
from app.params import find_routing_params
from app.validation.violations import json_path


class ModelGlobs(Struct, frozen=True):
    """The models that a caller may use, as patterns of `fnmatch`: `qwen*`, `gpt-4o`. Case matters."""

    patterns: tuple[str, ...]
    within: "ModelGlobs | None" = None
    """Further ones, of which one must match too."""
    owner: str = ""
    """Whose they are, if not the caller's own: `its team 'research'`."""

    def match(self, *names: str) -> bool:
        """Whether a pattern matches one of the names by which the model is known."""
        own = any(fnmatchcase(name, pattern) for name in names for pattern in self.patterns)
        return own and (self.within is None or self.within.match(*names))


class Caller(Struct, frozen=True):
    name: str
    """The name of the API key, or `issuer:name` with a JWT; "" if the gateway has no keys."""
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
            text = f"{describe_caller(self.name)} may not use the model {names[0][:200]!r}"
            if not self.models.patterns and self.models.owner:
                add = "The gateway's operator can add the team, or give the key another one"
                raise Forbidden(f"{text}: {self.models.owner} is not in the configuration. {add}", "model")
            if not self.models.patterns:
                raise Forbidden(f"{text}: it is not for models. Send another {self._sent}", "model")
            raise Forbidden(
                f"{text}; it may use: {', '.join(self.models.patterns)}"
                f"{_describe_bounds(self.models.within)}. "
                f"The gateway's operator can add the model to `models` of the {self._rights_place}",
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
                f"{path}{more} chooses a model, a provider or an address, which {describe_caller(self.name)} may not "
                "do, because it may not use all models: leave it out. The gateway's operator can set it in `defaults` "
                "of the model",
                path,
            )

    @property
    def _sent(self) -> str:
        return "token" if ISSUER_SEPARATOR in self.name else "key"

    @property
    def _rights_place(self) -> str:
        return "issuer of the JWT" if ISSUER_SEPARATOR in self.name else "key"

    def select_models(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that this caller may use."""
        return [name for name in names if self.models is None or self.models.match(name)]


def _describe_bounds(globs: ModelGlobs | None) -> str:
    text = ""
    while globs is not None:
        text += f", of those of {globs.owner}: {', '.join(globs.patterns)}"
        globs = globs.within
    return text


ANONYMOUS = Caller("", "")
"""Every caller of a gateway that has no keys."""
