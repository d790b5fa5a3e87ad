"""Check the issuers of JWTs of a configuration: their keys are fetched."""

import asyncio
from collections.abc import Callable

from app.access.jwks import FetchedJwks, JwksError, JwksLocation, fetch_jwks
from app.config.access import list_jwks_locations
from app.config.settings import Settings
from app.doctor.findings import Finding
from app.upstream.http.transport import PushTransport, UpstreamTransport

_MAX_SHOWN = 10


async def check_jwt_issuers(
    settings: Settings, progress: Callable[[str], None] = lambda _: None, transport: UpstreamTransport | None = None
) -> list[Finding]:
    """Fetch the keys of all issuers at the same time, and return the findings in the order of the settings."""
    locations = list_jwks_locations(settings)
    if not locations:
        return []
    progress("the issuers of JWTs")
    client = transport or PushTransport()
    try:
        found = await asyncio.gather(*(_examine(location, settings, client) for location in locations))
    finally:
        await client.aclose()
    return [finding for findings in found for finding in findings]


async def _examine(location: JwksLocation, settings: Settings, transport: UpstreamTransport) -> list[Finding]:
    subject = f"JWT issuer {location.name}"
    try:
        fetched = await fetch_jwks(location, transport)
    except JwksError as error:
        advice = "correct issuer, jwks_url or jwks_file, or look at the identity provider; proxy and ca_file say how"
        return [Finding(subject, "keys", "problem", str(error), advice)]
    return [Finding(subject, "keys", "ok", _name_keys(fetched)), *_find_doubts(subject, location, settings, fetched)]


def _name_keys(fetched: FetchedJwks) -> str:
    keys = fetched.keys.keys
    more = f" and {len(keys) - _MAX_SHOWN} more" if len(keys) > _MAX_SHOWN else ""
    return f"{fetched.place}: {', '.join(key.label for key in keys[:_MAX_SHOWN])}{more}"


def _find_doubts(subject: str, location: JwksLocation, settings: Settings, fetched: FetchedJwks) -> list[Finding]:
    accepted = settings.jwt[location.name].algorithms
    found: list[Finding] = []
    if not any(set(key.algorithms) & set(accepted) for key in fetched.keys.keys):
        text = f"no key is for one of the algorithms {', '.join(accepted)}, so every token is refused"
        found.append(Finding(subject, "algorithms", "problem", text, "correct `algorithms`"))
    if fetched.place.startswith("http:"):
        text = "the keys come over plain HTTP: who is on the way can replace them and sign tokens"
        found.append(
            Finding(subject, "keys", "warning", text, "use https, unless the way is inside one machine or pod")
        )
    if fetched.keys.skipped:
        text = f"keys that are not used: {'; '.join(fetched.keys.skipped[:_MAX_SHOWN])}"
        found.append(Finding(subject, "keys", "ok", text))
    return found
