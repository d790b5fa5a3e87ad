"""`Caller`: who sent a request, and what this caller may do."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from app.access.users import MAX_NAME, UserRules
from app.chat.messages import IDENTITY_SEPARATOR, CallerRights
from app.endpoints.kinds import ModelEndpoint, describe_served
from app.errors import BadRequest, Forbidden, ParleyError
from app.limits.values import NO_LIMITS, Limits, Team, describe_caller
from app.observe.request_record import ISSUER_SEPARATOR

_SEVERAL = (",", "@preset/")
"""What is in a name by which a server chooses among several models: LiteLLM takes a list (docs.litellm.ai, "Fastest
Response"), OpenRouter a preset (openrouter.ai/docs, "Presets"). No pattern with `*` allows those."""


class ModelGlobs(Struct, frozen=True):
    """The models that a caller may use, as patterns of `fnmatch`: `qwen*`, `gpt-4o`. Case matters."""

    patterns: tuple[str, ...]
    within: "ModelGlobs | None" = None
    """Further ones, of which one must match too."""
    owner: str = ""
    """Whose they are, if not the caller's own: `its team 'research'`."""

    def match(self, *names: str) -> bool:
        """Whether a pattern matches one of the names by which the model is known."""
        own = any(_matches(name, pattern) for name in names for pattern in self.patterns)
        return own and (self.within is None or self.within.match(*names))


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (name == pattern or not any(part in name for part in _SEVERAL))


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
    owner: str = ""
    """Under which its stored responses and replies are kept, if that is not the name: a stored key has one of its own,
    so that a later key of the same name is another caller."""
    own_fallbacks: bool = False
    """Fallbacks that it could not ask for itself do not answer it."""
    endpoints: tuple[ModelEndpoint, ...] | None = None
    """The endpoints that it may use; None: all."""
    users: UserRules | None = None
    """None: it names no end users."""
    user: str | None = None
    """The end user; empty if the request names none, None if the caller names none."""

    @property
    def identity(self) -> str:
        return self.owner or self.name

    @property
    def user_limits(self) -> Limits:
        """Those of its end user."""
        return NO_LIMITS if self.users is None else self.users.limits

    def with_user(self, name: str) -> "Caller":
        """Return this caller with its end user, who gets nothing that is stored for another one. An empty name is that
        of all requests that name no user. Users whose names begin alike share limits and usage, but nothing that is
        stored. Raises StoreDown if names are hashed, and cannot be now."""
        rules = self.users
        assert rules is not None
        if not name:
            return replace(self, user="")
        if rules.hash_name is not None:
            name = rules.hash_name(self.name, name)
        # Hex digits, because names may have any characters, and what is stored for a caller is found by its beginning.
        digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        owner = f"{self.identity}{IDENTITY_SEPARATOR}{digest}"
        return replace(self, user=name[:MAX_NAME], owner=owner, scope=self.scope if rules.share_replies else owner)

    def check_user(self) -> None:
        """Raises BadRequest if a request for a reply must name an end user, and does not."""
        if self.users is not None and self.users.required and not self.user:
            source = self.users.source
            raise BadRequest(
                f"requests with {describe_caller(self.name)} must name their end user in {source}, without control "
                "characters",
                str(source) if source.is_in_body else None,
            )

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

    def check_endpoint(self, endpoint: ModelEndpoint | None) -> None:
        """Raises Forbidden for an endpoint that this caller may not use. None is one that is free."""
        if endpoint is not None and self.endpoints is not None and endpoint not in self.endpoints:
            raise Forbidden(
                f"{describe_caller(self.name)} is for {describe_served(self.endpoints)}, not for {endpoint}. The "
                f"gateway's operator can add it to `endpoints` of the {self._rights_place}"
            )

    def may_use(self, *names: str) -> bool:
        """Whether this caller may use the model that has these names."""
        return self.models is None or self.models.match(*names)

    @property
    def rights(self) -> CallerRights | None:
        """What requests may choose at a model server; None if the gateway has no keys."""
        return CallerRights(describe_caller(self.name), self.models is not None) if self.name else None

    def check_embedding_model(self, model: str) -> None:
        """Check that this caller may have files searched with this model. Raises Forbidden."""
        if self.models is not None and not self.models.match(model):
            raise Forbidden(
                f"{describe_caller(self.name)} may not use the embedding model {model[:200]!r}; it may use: "
                f"{', '.join(self.models.patterns)}. The gateway's operator can set it in `rag_cfg` of the model",
                "rag_cfg.embedding_model",
            )

    @property
    def _sent(self) -> str:
        return "token" if ISSUER_SEPARATOR in self.name else "key"

    @property
    def _rights_place(self) -> str:
        return "issuer of the JWT" if ISSUER_SEPARATOR in self.name else "key"

    def select_models(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that this caller may use."""
        return [name for name in names if self.may_use(name)]


def _describe_bounds(globs: ModelGlobs | None) -> str:
    text = ""
    while globs is not None:
        text += f", of those of {globs.owner}: {', '.join(globs.patterns)}"
        globs = globs.within
    return text


ANONYMOUS = Caller("", "")
"""Every caller of a gateway that has no keys."""


class KeysOutdated(Exception):
    """No known key of its issuer verifies a JWT. One that is fetched now might."""

    def __init__(self, refresh: Callable[[], Awaitable[bool]], answer: ParleyError) -> None:
        """`refresh` fetches the issuer's keys and returns whether they have changed. `answer` is the caller's error if
        they have not."""
        super().__init__()
        self.refresh = refresh
        self.answer = answer
