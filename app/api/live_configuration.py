"""`LiveConfiguration`: everything that a reload of the configuration replaces, in one assignment."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from app.access.addresses import TrustedProxies
from app.access.caller import ModelGlobs
from app.api.endpoint_errors import ENDPOINT_ERRORS
from app.api.middleware import RequestRules
from app.api.origins import OriginRules
from app.api.resources import Resources
from app.config.access import make_key_ring
from app.config.codex_instructions import read_codex_instructions
from app.config.registry import ModelRegistry
from app.config.settings import Settings, SettingsError
from app.config.tables.server import Server
from app.formats.anthropic import ANTHROPIC
from app.formats.base import WriteError
from app.formats.openai import OPENAI
from app.formats.request_limits import RequestLimits
from app.formats.responses import RESPONSES
from app.gateway import Gateway
from app.limits import Limiter
from app.upstream.catalog import Catalog

if TYPE_CHECKING:
    from app.chat.guarding import GuardedReply
    from app.guards.guards import Guards

ERROR_WRITERS: Mapping[str, WriteError] = {
    "/v1/models": OPENAI.error,
    "/v1/responses": RESPONSES.error,
    "/v1/conversations": RESPONSES.error,
    "/v1/alpha/search": RESPONSES.error,
    "/v1/chat/completions": OPENAI.error,
    "/v1/messages": ANTHROPIC.error,
    **ENDPOINT_ERRORS,
}
"""The formats of errors at these paths and below them."""


class ListEtag(Struct, frozen=True):
    """The ETag of a list of models, and what its servers had listed: a later list consists of other objects."""

    names: tuple[str, ...] | None
    listed: tuple[Mapping[str, int], ...]
    value: str


class LiveConfiguration(Struct, frozen=True):
    """A request takes it once, when its body begins, and goes on with it."""

    settings: Settings
    registry: ModelRegistry
    gateway: Gateway
    catalog: Catalog | None
    """Lists the models of the pass-through's upstream; None: there is no pass-through."""
    rules: RequestRules
    request_limits: RequestLimits
    separate_callers: bool
    """Stored replies are shared only among the requests of one caller."""
    limiter: Limiter | None
    """None: nothing is limited. A reload changes its limits, and keeps what has been used of those that stay."""
    guards: "Guards | None" = None
    """None if none is configured."""
    codex_instructions: str | None = None
    """The operator's text; None: the gateway's own."""
    codex_etags: dict[ModelGlobs | None, ListEtag] = field(default_factory=dict)
    """Those of Codex's list by the models that a caller may use."""

    def unseal_reply(self, about: str, text: str) -> "GuardedReply | None":
        """Return what a guarded reply of another gateway needs; None if it has another key."""
        return None if self.guards is None else self.guards.unseal_reply(about, text)


def make_live_configuration(
    settings: Settings, resources: Resources, limiter: Limiter | None, previous: LiveConfiguration | None
) -> LiveConfiguration:
    """Raises SettingsError for files that the settings name."""
    server, retries = settings.server, resources.retries
    counters = None if previous is None else previous.registry.counters
    registry = ModelRegistry(settings, resources.demo_url, retries.grace_seconds, counters, resources.credentials)
    catalog = None if previous is None else previous.catalog
    if catalog is None or catalog.target != registry.passthrough:
        catalog = None if registry.passthrough is None else Catalog(registry.passthrough, resources.client)
    gateway = Gateway(
        registry.find,
        registry.default_model,
        resources.client,
        registry.counters.get,
        resources.loader,
        resources.storage.cache,
        resources.base_urls,
        known=registry.models(),
        read_id=registry.read_id,
        catalog=catalog,
        ticker=resources.ticker,
        upstreams=resources.upstreams,
        budget=retries.budget,
        retry_seconds=retries.seconds,
    )
    rules = RequestRules(
        OriginRules(server.host, server.allowed_hosts, server.allowed_origins),
        make_key_ring(settings, resources.stored_keys, resources.jwks, resources.user_hasher),
        TrustedProxies(server.trusted_proxies),
        server.base_path or "",
        ERROR_WRITERS,
    )
    return LiveConfiguration(
        settings,
        registry,
        gateway,
        catalog,
        rules,
        request_limits(server),
        settings.separate_callers,
        limiter,
        _make_guards(settings, resources, None if previous is None else previous.guards),
        _read_instructions(settings),
    )


def _make_guards(settings: Settings, resources: Resources, previous: "Guards | None") -> "Guards | None":
    """Return the guards; without any, nothing of them is imported. What they have said before stays known."""
    if not settings.guards:
        return None
    from app.guards.guards import Guards

    rules = [row.make_rule(name) for name, row in settings.guards.items()]
    mistakes = settings.masking.secret_rules[1]
    if mistakes:
        raise SettingsError([f"masking.rules_file: {mistake}" for mistake in mistakes])
    masking = settings.masking.make_rule(resources.masking_key.value)
    return Guards(rules, masking, resources.transport, previous)


def _read_instructions(settings: Settings) -> str | None:
    try:
        return read_codex_instructions(settings.agents)
    except ValueError as error:
        raise SettingsError([f"agents.codex_instructions: {error}"]) from error


def request_limits(server: Server) -> RequestLimits:
    return RequestLimits(server.max_messages, server.max_content_items, server.max_functions, server.max_nesting)
