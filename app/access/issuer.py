"""`Issuer`: an issuer of JWTs (RFC 7519) whose callers are admitted, and the caller that verified claims describe."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from app.access.caller import Caller, ModelGlobs
from app.access.users import UserRules, clean_user
from app.errors import Forbidden, InvalidToken
from app.limits.values import Limits, Team
from app.observe.request_record import ISSUER_SEPARATOR

AlgorithmName: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""The algorithms that verify with a public key (RFC 7518, RFC 8037). With `none` and HS256 anyone could sign."""
MAX_NAME = 128
"""The most characters of a caller's name in a token."""
MAX_MODELS = 200
"""The most models that a token may list."""
_MAX_SHOWN = 200
_SCOPES = frozenset(("scope", "scp"))
"""The claims whose text is a list of words (RFC 8693, section 4.2; `scp` is Microsoft's)."""


class TeamRights(Struct, frozen=True):
    team: Team
    models: ModelGlobs | None
    """None: all models."""


class Issuer(Struct, frozen=True):
    name: str
    """Its name in the settings, with which the names of its callers begin."""
    url: str
    """The claim `iss` of its tokens."""
    audiences: frozenset[str]
    """One of them must be in the claim `aud`."""
    algorithms: frozenset[str]
    leeway_seconds: float
    """How far the clocks of the issuer and of this machine may differ."""
    name_claim: str
    team_claim: str | None
    models_claim: str | None
    admin_claim: str | None
    admin_value: str | bool | None
    models: ModelGlobs | None
    """What a token can at most allow; None: all models."""
    team: str | None
    """The team of callers whose token names none."""
    teams: Mapping[str, TeamRights]
    """The configured teams."""
    limits: Limits
    """Of each caller."""
    own_fallbacks: bool = False
    """Fallbacks that a caller could not ask for itself do not answer it."""
    users: UserRules | None = None
    """What it says of end users behind its callers."""


def make_caller(claims: Mapping[str, Any], issuer: Issuer) -> Caller:
    """Return the caller of a token whose signature, issuer, audience and times are verified.

    Raises InvalidToken for a claim that is missing or of another type, and Forbidden for a team that is not configured.
    """
    name = f"{issuer.name}{ISSUER_SEPARATOR}{_read_name(claims, issuer)}"
    rights = _find_team(claims, issuer)
    models = _find_models(claims, issuer, None if rights is None else rights.models)
    team = None if rights is None else rights.team
    admin = _is_admin(claims, issuer)
    caller = Caller(
        name, name, admin, models, issuer.limits, team, own_fallbacks=issuer.own_fallbacks, users=issuer.users
    )
    if issuer.users is None or issuer.users.source.place != "claim":
        return caller
    return caller.with_user(clean_user(find_claim(claims, issuer.users.source.name)))


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return the claim of this name, else the one at this path: `realm_access.roles` is the member `roles` of the claim
    `realm_access`. None if there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for step in name.split("."):
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = found[step]
    return found


def _read_name(claims: Mapping[str, Any], issuer: Issuer) -> str:
    name = _require_claim(claims, issuer.name_claim, "the caller's name")
    if not isinstance(name, str):
        raise _wrong_type(issuer.name_claim, "a string", name)
    if not (0 < len(name) <= MAX_NAME and name.isprintable() and name.strip() == name):
        raise InvalidToken(
            f"the claim {issuer.name_claim!r} of the JWT is {shorten(name)}: the name of a caller has 1 to {MAX_NAME} "
            "printable characters, and no space at its ends"
        )
    return name


def _find_team(claims: Mapping[str, Any], issuer: Issuer) -> TeamRights | None:
    claim = issuer.team_claim
    given = None if claim is None else find_claim(claims, claim)
    # Some identity providers leave the claim out for a caller without groups, others send an empty list.
    if claim is None or given is None or (given == [] and issuer.team is not None):
        if claim is not None and issuer.team is None:
            raise _missing(claim, "the caller's team")
        return None if issuer.team is None else issuer.teams[issuer.team]
    names = [given] if isinstance(given, str) else _read_strings(claim, given)
    found = next((issuer.teams[name] for name in names if name in issuer.teams), None)
    if found is None:
        raise Forbidden(
            f"the claim {claim!r} of the JWT is {shorten(given)}, which names no team of this gateway. "
            "The gateway's operator can add the team"
        )
    return found


def _find_models(claims: Mapping[str, Any], issuer: Issuer, of_team: ModelGlobs | None) -> ModelGlobs | None:
    """Return the models that the claim, the issuer and the team all allow. A token cannot add to what is configured."""
    allowed = of_team
    if issuer.models is not None:
        allowed = ModelGlobs(issuer.models.patterns, of_team, f"the issuer {issuer.name!r}")
    if issuer.models_claim is None:
        return allowed
    given = _require_claim(claims, issuer.models_claim, "the models that the caller may use")
    patterns = given.split() if isinstance(given, str) else _read_strings(issuer.models_claim, given)
    if len(patterns) > MAX_MODELS:
        raise InvalidToken(
            f"the claim {issuer.models_claim!r} of the JWT lists {len(patterns)} models; at most {MAX_MODELS} can be"
        )
    if allowed is None and "*" in patterns:
        return None
    return ModelGlobs(tuple(patterns), allowed)


def _is_admin(claims: Mapping[str, Any], issuer: Issuer) -> bool:
    claim, value = issuer.admin_claim, issuer.admin_value
    if claim is None or value is None:
        return False
    given = find_claim(claims, claim)
    if isinstance(given, str) and claim in _SCOPES:
        given = given.split()
    found = given if isinstance(given, list) else [given]
    return any(type(item) is type(value) and item == value for item in found)


def _require_claim(claims: Mapping[str, Any], name: str, meaning: str) -> Any:
    found = find_claim(claims, name)
    if found is None:
        raise _missing(name, meaning)
    return found


def _missing(name: str, meaning: str) -> InvalidToken:
    return InvalidToken(
        f"the JWT has no claim {name!r}, from which {meaning} is read. Let the identity provider add it to the token"
    )


def _read_strings(name: str, value: Any) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong_type(name, "a string or a list of strings", value)
    return value


def _wrong_type(name: str, expected: str, value: Any) -> InvalidToken:
    return InvalidToken(f"the claim {name!r} of the JWT must be {expected}, not {shorten(value)}")


def shorten(value: object) -> str:
    """Show what a token has, in a message for its sender."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
