"""What is valid in a configuration, and yet loses, divides or endangers what users expect to be kept."""

import re
from collections.abc import Iterator

import httpx

from app.access.addresses import is_loopback
from app.config.settings import Settings
from app.config.tables.guards import find_guard_warnings
from app.profiles.apis import WITHOUT_EFFECT
from app.redis.urls import RedisUrl, parse_cache_url
from app.state.urls import PostgresUrl, parse_state_url
from app.upstream.api import find_api

_VARIABLE = re.compile(r"\$[A-Z][A-Z0-9_]*")
"""A variable as a shell writes it, which is no variable here."""


def find_unused_fields(settings: Settings) -> Iterator[str]:
    """Return a sentence for each field of a model's profile that changes nothing over the API of its server."""
    for model, row in settings.models.items():
        for upstream in row.upstreams:
            api = settings.upstreams[upstream.name].api
            for field in sorted(WITHOUT_EFFECT[api].intersection(row.profile)):
                yield f"models.{model}.profile.{field} has no effect over the API {api} of the upstream {upstream.name}"


def find_suspect_upstreams(settings: Settings) -> Iterator[str]:
    """Return a sentence for each address and key of a model server that will hardly work."""
    for name, row in settings.upstreams.items():
        path = find_api(row.api).path
        if path and row.url.rstrip("/").endswith(path):
            yield f"upstreams.{name}.base_url ends with {path}, which the gateway adds itself: leave it out"
        key = row.api_key.get_secret_value() if row.api_key else ""
        if _VARIABLE.fullmatch(key):
            yield f"upstreams.{name}.api_key begins with $: a variable is written ${{{key[1:]}}}"


def find_warnings(settings: Settings) -> Iterator[str]:
    """Return a sentence for each, which says what to do. `settings` are complete: `load` made them."""
    yield from find_unused_fields(settings)
    yield from find_suspect_upstreams(settings)
    yield from find_guard_warnings(settings.guards, settings.masking)
    unkept = [
        what
        for what, section in (("replies", settings.cache), ("usage", settings.usage))
        if section.url is None  # `load` has set a file if one can be written
    ]
    if unkept:
        names = " and ".join(f"{'cache' if what == 'replies' else what}.url" for what in unkept)
        yield (
            f"{' and '.join(unkept)} are in memory and lost when the gateway ends: no file can be written in the "
            f"folders of HOME, XDG_CACHE_HOME and XDG_DATA_HOME. Set {names}, or mount a folder that can be written"
        )
    if settings.request_log.keep != "off":
        yield from _check_request_log(settings)
    shared = isinstance(parse_cache_url(settings.cache.url or "memory:"), RedisUrl)
    counted = isinstance(parse_state_url(settings.usage.url or "memory:"), PostgresUrl)
    if shared and not counted and settings.state.url is None:
        yield (
            "stored responses and kept reasoning are in Redis, which may evict them: set state.url to a PostgreSQL, or "
            "to a file if all gateways are on one machine"
        )
    if settings.server.replicas > 1 and not shared:
        alone = "replies, calls in progress, rate limits" + ("" if counted else ", usage and spending")
        yield (
            f"server.replicas is {settings.server.replicas}, but without Redis each gateway has {alone} of its own: "
            "set cache.url to a Redis" + ("" if counted else " and usage.url to a PostgreSQL")
        )
    if settings.server.workers > 1 and not shared and _may_limit_rates(settings):
        number = settings.server.workers
        yield (
            f"the limits of requests, tokens and replies at the same time are counted by each of the {number} workers "
            f"alone, so a caller gets up to {number} times as much: set cache.url to a Redis, or server.workers to 1. "
            "Limits of spending hold for all workers together"
        )
    for name, row in settings.jwt.items():
        url = httpx.URL(row.jwks_url or row.issuer)
        if row.jwks_file is None and url.scheme == "http" and not is_loopback(url.host):
            yield (
                f"the keys of the JWT issuer {name} come over plain HTTP, so who is on the way from {url.host} can "
                "replace them: use https"
            )


def _may_limit_rates(settings: Settings) -> bool:
    """Whether there are limits that are not of spending, or an administrator can give a key some while workers run."""
    rows = [settings.limits, *(model.limits for model in settings.models.values())]
    rows += [key.limits for key in settings.keys.values()]
    rows += [team.limits for team in settings.teams.values()]
    rows += [issuer.limits for issuer in settings.jwt.values()]
    rates = [(row.requests_per_minute, row.tokens_per_minute, row.concurrent_streams) for row in rows]
    return settings.has_admin or any(rate != (None, None, None) for rate in rates)


def _check_request_log(settings: Settings) -> Iterator[str]:
    row = settings.request_log
    if row.url is None:
        yield "the request log is not kept: no file can be written in the folder of XDG_DATA_HOME: set request_log.url"
    if row.content == "full" and row.url is not None:
        yield (
            'request_log.content is "full": the log has what clients and models wrote as it is, with personal data; '
            "only keys are removed. Administrators read it"
        )
