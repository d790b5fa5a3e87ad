"""`[keys.<name>]`, `[teams.<name>]` and `[jwt.<name>]`: who may call, and with which models and limits."""

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, PrivateAttr, StrictBool, model_validator

from app.access.issuer import AlgorithmName
from app.access.users import parse_user_source
from app.config.tables.base import NO_PROXY, Names, ProxyUrl, Seconds, Table, exact_url, http_url, split_list
from app.config.tables.limits import LimitSettings
from app.endpoints.kinds import ModelEndpoint
from app.upstream.http.options import ConnectionOptions, parse_proxy


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError(
            "must be the SHA-256 of the key as 64 hex digits, never the key itself: `parley keys new NAME` prints it"
        )
    return value.lower()


_Sha256 = Annotated[str, AfterValidator(_sha256)]


def _key_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}", value):
        raise ValueError("must be 1 to 64 letters, digits and ._@+- and begin with a letter or digit")
    return value


KeyName = Annotated[str, AfterValidator(_key_name)]


def _expiry(value: Any) -> datetime | None:
    """Return the begin of a date, or a date and time, in UTC. A number, which pydantic would take as Unix time, is a
    mistake."""
    try:
        match value:
            case None:
                return None
            case str():
                time = datetime.fromisoformat(value)
            case datetime():
                time = value
            case date():
                time = datetime(value.year, value.month, value.day)
            case _:
                raise ValueError
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a date such as 2027-01-01, or a date and time") from None


def _true_or_false(value: Any) -> bool:
    """Return a boolean; an environment variable holds it as a word. Nothing else makes an administrator."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


Fallbacks: TypeAlias = Literal["all", "own"]


def _user_source(value: str) -> str:
    parse_user_source(value)
    return value


class UserSettings(Table):
    """Whom a key, or the JWTs of an issuer, name as end users."""

    users: Annotated[str, AfterValidator(_user_source)] | None = None
    users_required: bool = False
    hash_users: bool = False
    limits_per_user: LimitSettings = LimitSettings()

    @model_validator(mode="after")
    def _check_users(self) -> "UserSettings":
        given = [name for name, field in UserSettings.model_fields.items() if getattr(self, name) != field.default]
        if self.users is None and given:
            raise ValueError(f"has {given[0]}, which needs `users`: where requests name their user")
        return self


class Key(UserSettings):
    sha256: _Sha256
    models: Names = ("*",)
    cache_scope: KeyName | None = None
    admin: Annotated[bool, BeforeValidator(_true_or_false)] = False
    expires: Annotated[AwareDatetime | None, BeforeValidator(_expiry)] = None
    previous_sha256: _Sha256 | None = None
    """The hash of the key before, which is accepted too, until `previous_until`."""
    previous_until: Annotated[AwareDatetime | None, BeforeValidator(_expiry)] = None
    limits: LimitSettings = LimitSettings()
    team: str | None = None
    endpoints: Annotated[tuple[ModelEndpoint, ...] | None, BeforeValidator(split_list)] = None
    """The endpoints that the key may use; None: all."""
    fallbacks: Fallbacks = "all"
    """`own`: only those of a model's fallbacks answer that it could ask for itself."""
    _identity: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _check_claim(self) -> "Key":
        if self.users is not None and parse_user_source(self.users).place == "claim":
            raise ValueError('has users = "claim:…", which only JWTs have: name a header or a field of the body')
        return self

    @property
    def identity(self) -> str:
        """That of a key in the state database; "" for one of the configuration, which its name identifies."""
        return self._identity

    def with_identity(self, identity: str) -> "Key":
        key = self.model_copy()
        key._identity = identity
        return key


class Team(Table):
    """What several keys have together."""

    models: Names = ("*",)
    limits: LimitSettings = LimitSettings()


class JwtIssuer(UserSettings):
    """An issuer of JWTs, with which callers may call as with an API key."""

    issuer: str = Field(min_length=1, max_length=2000)
    audience: Names = Field(min_length=1)
    jwks_url: Annotated[str, AfterValidator(exact_url)] | None = None
    jwks_file: str | None = None
    refresh_seconds: Seconds = Field(default=300.0, ge=10)
    algorithms: Annotated[tuple[AlgorithmName, ...], BeforeValidator(split_list)] = Field(
        default=("RS256", "PS256", "ES256", "EdDSA"), min_length=1
    )
    leeway_seconds: float = Field(default=30.0, ge=0, le=300, allow_inf_nan=False)
    name_claim: str = Field(default="sub", min_length=1)
    team_claim: str | None = Field(default=None, min_length=1)
    models_claim: str | None = Field(default=None, min_length=1)
    admin_claim: str | None = Field(default=None, min_length=1)
    admin_value: StrictBool | str | None = None
    models: Names = ("*",)
    """What a token can at most allow."""
    fallbacks: Fallbacks = "all"
    """As in `keys`."""
    team: str | None = None
    """The team of callers whose token names none."""
    limits: LimitSettings = LimitSettings()
    """Those of each caller."""
    proxy: ProxyUrl | None = None
    """Without it, `load` sets what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""
    ca_file: str | None = None

    @model_validator(mode="after")
    def _check_together(self) -> "JwtIssuer":
        if self.jwks_url and self.jwks_file:
            raise ValueError("has jwks_url and jwks_file: remove one of them")
        if not (self.jwks_url or self.jwks_file):
            try:
                http_url(self.issuer)
            except ValueError as error:
                raise ValueError(f"needs jwks_url or jwks_file, because `issuer` is no URL: it {error}") from None
        if (self.admin_claim is None) != (self.admin_value is None):
            raise ValueError("needs both of admin_claim and admin_value, or none of them")
        return self

    @property
    def connections(self) -> ConnectionOptions:
        proxy = self.proxy.get_secret_value() if self.proxy else NO_PROXY
        return ConnectionOptions(None if proxy == NO_PROXY else parse_proxy(proxy), self.ca_file)
