"""Turn settings into routes: the model names that callers may use, and the deployments of each."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Literal
from urllib.parse import parse_qsl

from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import MediaKind
from app.config.credentials import list_credential_sources
from app.config.settings import DEMO, Settings, SettingsError
from app.config.tables.models import Model
from app.config.tables.upstreams import Upstream
from app.endpoints.kinds import CHAT
from app.formats.agent_models import CLAUDE_ID, ListedModel
from app.profiles import Profile
from app.routing import Deployment, HedgeDelay, ModelRoute
from app.routing.rules import RouteRules, Rule, TargetLimits
from app.routing.strategies import Strategy
from app.runtime.token_counting import TokenCounters, TokenizersError
from app.upstream.api import find_api
from app.upstream.credentials import CredentialStore, RenewingCredential
from app.upstream.http.client import GRACE_SECONDS, Target, request_headers
from app.upstream.redaction import EMPTY_REDACTOR, Redactor
from app.validation.violations import json_path
from app.validation.wildcards import WILDCARD, count_literals, match_wildcard

DEMO_MODEL = "parley-demo"
_KEYS = {"authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"}
"""Headers that identify the caller. They are not part of the cache key, so that a new API key keeps the cache."""

_WINDOW = re.compile(r"(?:\[[0-9]+m\]){1,2}$", re.IGNORECASE)
"""The window that Claude's apps ask for, behind the name of a model (ollama/ollama#18180), twice in some versions
(Wei-Shaw/sub2api#4505)."""

NO_WINDOWS: Mapping[str, Mapping[str, int]] = {}

MAX_KEPT_ROUTES = 256
"""Behind a pass-through, callers may name any model; the routes of those that were named last are kept."""


class ModelAbilities(Struct, frozen=True):
    """What a model can do on every one of its upstreams, as their profiles say."""

    kinds: tuple[str, ...]
    """The kinds of server that serve it."""
    tools: Literal["native", "text", "prompt"]
    """How it calls functions: the server returns calls, the gateway reads them from the text, or it also explains the
    functions in the prompt."""
    thinking_switch: bool
    """Whether a caller can switch its reasoning on and off."""
    media: tuple[MediaKind, ...]
    max_input_tokens: int | None
    """Longer conversations are truncated; None without a limit."""
    endpoints: tuple[str, ...] = (CHAT,)
    """What it serves: conversations (`chat`), embeddings, …"""


class ModelRegistry:
    """The models of one process. A configured name takes precedence over the pass-through."""

    def __init__(
        self,
        settings: Settings,
        demo_url: Callable[[], str] | None,
        grace_seconds: float = GRACE_SECONDS,
        counters: TokenCounters | None = None,
        credentials: CredentialStore | None = None,
    ) -> None:
        """`demo_url` returns the address of the demo model, which is known once its server listens. `counters` are
        those of an earlier configuration: tokenizer files that have not changed are not read again. `credentials` has
        those that are renewed. Raises SettingsError if one cannot be used."""
        self._settings = settings
        self._cache_seconds = None if settings.cache.url == "null:" else settings.cache.ttl_seconds
        self._targets = targets(settings, grace_seconds, credentials)
        routes: dict[str, ModelRoute] = {}
        for name, row in settings.models.items():
            if row.use is not None:
                continue
            deployments = tuple(
                _make_deployment(
                    settings, self._targets, name, upstream.name, row.name or name, upstream.weight, upstream.priority
                )
                for upstream in row.upstreams
            )
            routes[name] = ModelRoute(
                name,
                deployments,
                row.defaults.given_params(),
                row.max_retries,
                self._seconds(row),
                _find_strategy(row, deployments),
                row.fallbacks,
                row.fallbacks_on_context_length,
                row.fallbacks_on_content_filter,
                row.deadline_seconds,
                _hedge_delay(row),
                None if row.price is None else row.price.to_price(),
                None if row.rag_cfg is None else row.rag_cfg.to_search(),
                any(deployment.profile.check_output == "enforce" for deployment in deployments),
                _reads_sessions(row, deployments),
                endpoints=row.endpoints,
            )
        for name, row in settings.models.items():
            if row.describe_media_with is not None and name in routes:
                other = routes[row.describe_media_with]
                kinds = _list_described(routes[name], other)
                routes[name] = replace(routes[name], describe_with=other.model, described=kinds)
        routes |= {
            name: _make_virtual_route(name, settings.models, routes) for name, row in settings.models.items() if row.use
        }
        names = {alias: name for name, row in settings.models.items() for alias in (name, *row.aliases)}
        self._nameless = tuple(name for name, row in settings.models.items() if row.is_pattern)
        self._routes: dict[str, ModelRoute] = {
            alias: routes[name]
            for alias, name in names.items()
            if name not in self._nameless and (alias in routes or WILDCARD not in alias)
        }
        # `sorted` keeps the order of the file among those with as many literal characters.
        patterns = sorted(
            (alias for alias in names if alias not in self._routes and alias not in self._nameless),
            key=count_literals,
            reverse=True,
        )
        self._patterns = tuple((pattern, routes[names[pattern]]) for pattern in patterns)
        self._find_pattern_route = lru_cache(MAX_KEPT_ROUTES)(partial(_make_pattern_route, dict(self._patterns)))
        self.counters = load_counters(settings, counters)
        self._demo_url = None if DEMO in self._routes else demo_url
        # Of no method of the registry: then each would hold the other, and what a reload replaces would stay in memory
        # until the garbage collector looks for it, which is rarely.
        make_route = partial(_make_passthrough_route, settings, self._targets, self._cache_seconds)
        self._find_passthrough_route = lru_cache(MAX_KEPT_ROUTES)(make_route)

    @cached_property
    def _demo_route(self) -> ModelRoute:
        assert self._demo_url is not None
        target = _make_target(DEMO, Upstream(base_url=self._demo_url(), kind="vllm"))
        deployment = Deployment(target, DEMO_MODEL, self._settings.kind_profile("vllm"))
        return ModelRoute(DEMO, (deployment,), {}, cache_seconds=self._cache_seconds)

    def _seconds(self, row: Model) -> float | None:
        if self._cache_seconds is None or not row.cache:
            return None
        return row.cache_ttl_seconds or self._cache_seconds

    @property
    def default_model(self) -> str | None:
        """The model of a request that names none: the configured default, else the only model."""
        if self._settings.default_model or self._settings.passthrough:
            return self._settings.default_model
        models = self.models()
        return models[0] if len(models) == 1 and models[0] not in self._nameless else None

    @property
    def passthrough(self) -> Target | None:
        return self._targets[self._settings.passthrough] if self._settings.passthrough else None

    def names(self) -> list[str]:
        return [*self._routes, *self._demo_names()]

    def models(self) -> list[str]:
        """Return the names of the models, without their aliases."""
        named = dict.fromkeys(route.model for route in self._routes.values())
        return [*named, *self._nameless, *self._demo_names()]

    def _demo_names(self) -> list[str]:
        return [] if self._demo_url is None else [DEMO]

    def routes(self) -> list[ModelRoute]:
        """Return the routes of the configured models that have upstreams."""
        return list({route.model: route for route in self._routes.values() if route.rules is None}.values())

    def targets(self) -> list[Target]:
        """Return the configured upstreams."""
        return list(self._targets.values())

    def addresses(self) -> dict[str, str]:
        """Return the base_url of each upstream by its name."""
        return {name: target.base_url for name, target in self._targets.items()}

    def find(self, model: str) -> ModelRoute | None:
        route = self._routes.get(model)
        if route is not None:
            return route
        model = self.read_id(model)
        if model in self._routes:
            return self._routes[model]
        if self._demo_url is not None and model == DEMO:
            return self._demo_route
        pattern = next((pattern for pattern, _ in self._patterns if match_wildcard(pattern, model)), None)
        if pattern is not None:
            return self._find_pattern_route(pattern, model)
        return self._find_passthrough_route(model) if self._settings.passthrough else None

    def read_id(self, model: str) -> str:
        """Return the name of the model whose id for Claude Code this is, without the window that Claude's apps ask for
        (`m[1m]`); any other name as it is."""
        if model in self._routes:
            return model
        if model.endswith("]"):
            model = _WINDOW.sub("", model)
        if not model.startswith(CLAUDE_ID) or model in self._routes:
            return model
        name = model[len(CLAUDE_ID) :]
        known = name in self._routes or name in self._demo_names() or (name and self._settings.passthrough)
        return name if known else model

    def find_display_name(self, model: str) -> str:
        """Return how agents show the model that has this name or alias."""
        row = self._find_row(model)
        return model if row is None or row.display_name is None else row.display_name

    def _find_row(self, model: str) -> Model | None:
        route = self._routes.get(model)
        return None if route is None else self._settings.models[route.model]

    def _find_window_row(self, model: str) -> Model | None:
        """Return the settings that may have the context window of a model. A virtual one without has that of its
        default model."""
        row = self._find_row(model)
        return row if row is None or row.use is None or row.context_window is not None else self._find_row(row.use)

    def list_window_targets(self, models: Iterable[str]) -> list[Target]:
        """Return the servers that may list a context window of these models, which the configuration does not have."""
        found: dict[str, Target] = {}
        for model in models:
            row, route = self._find_window_row(model), self.find(model)
            if route is not None and (row is None or row.context_window is None):
                found |= {one.target.name: one.target for one in route.deployments}
        return list(found.values())

    def find_context_window(self, model: str, listed: Mapping[str, Mapping[str, int]] = NO_WINDOWS) -> int | None:
        """Return the tokens of a conversation and its reply together: those of the configuration, else the fewest that
        its servers list, else those of the profile; None if they are not known. `listed` has the windows that each
        server lists, by its name and the model's name there."""
        row, route = self._find_window_row(model), self.find(model)
        if row is not None and row.context_window is not None:
            return row.context_window
        deployments = () if route is None else route.deployments
        windows = [listed.get(one.target.name, {}).get(one.model) for one in deployments]
        least = min((window for window in windows if window is not None), default=None)
        abilities = self.find_abilities(model) if least is None else None
        if abilities is None or abilities.max_input_tokens is None:
            return least
        return abilities.max_input_tokens + (self.find_max_output_tokens(model) or 0)

    def describe_for_agents(self, model: str, listed: Mapping[str, Mapping[str, int]]) -> ListedModel:
        """Return what an agent is told about a model that `find` knows. `listed` is as for `find_context_window`."""
        row, route = self._find_row(model), self.find(model)
        assert route is not None
        profiles = [deployment.profile for deployment in route.deployments]
        return ListedModel(
            model,
            self.find_display_name(model),
            "" if row is None else row.description or "",
            self.find_context_window(model, listed),
            self.find_max_output_tokens(model),
            _find_efforts(profiles),
            "image" in self._list_media(route),
            all(profile.parallel_tool_calls for profile in profiles),
        )

    def find_abilities(self, model: str) -> ModelAbilities | None:
        route = self.find(model)
        if route is None:
            return None
        profiles = [deployment.profile for deployment in route.deployments]
        limits = [profile.max_input_tokens for profile in profiles if profile.max_input_tokens is not None]
        return ModelAbilities(
            tuple(dict.fromkeys(self._kind(deployment.target.name) for deployment in route.deployments)),
            _find_tools(profiles),
            all(profile.thinking_switch != "none" for profile in profiles),
            self._list_media(route),
            min(limits, default=None),
            route.endpoints,
        )

    def _list_media(self, route: ModelRoute) -> tuple[MediaKind, ...]:
        """Return the media that a request for the model may have: of a virtual one, those of all its targets."""
        targets = () if route.rules is None else [self._routes[name] for name in route.rules.targets]
        return tuple(dict.fromkeys(kind for one in (route, *targets) for kind in _find_media(one)))

    def find_max_output_tokens(self, model: str) -> int | None:
        """Return how many tokens a reply of the model may have on every one of its upstreams; None if that is not
        known."""
        route = self.find(model)
        deployments = () if route is None else route.deployments
        limits = [deployment.profile.max_output_tokens for deployment in deployments]
        return min((limit for limit in limits if limit is not None), default=None)

    def _kind(self, upstream: str) -> str:
        row = self._settings.upstreams.get(upstream)
        return DEMO if row is None else row.kind


def _make_virtual_route(name: str, models: Mapping[str, Model], routes: Mapping[str, ModelRoute]) -> ModelRoute:
    """Return the route of a virtual model: that of its default model, and the rules that choose another one."""
    row = models[name]
    assert row.use is not None
    targets = {target: routes[target] for target in dict.fromkeys((row.use, *(rule.use for rule in row.rules)))}
    rules = RouteRules(
        tuple(Rule(rule.when.to_conditions(), rule.use) for rule in row.rules),
        row.use,
        {target: _find_target_limits(route, models.get(target)) for target, route in targets.items()},
        row.route_seconds,
    )
    return replace(routes[row.use], model=name, rules=rules, endpoints=(CHAT,))


def _find_target_limits(route: ModelRoute, row: Model | None) -> TargetLimits:
    limits = [deployment.profile.max_input_tokens for deployment in route.deployments]
    limits.append(None if row is None else row.context_window)
    return TargetLimits(
        frozenset(_find_media(route)), min((limit for limit in limits if limit is not None), default=None)
    )


def _list_described(route: ModelRoute, other: ModelRoute) -> tuple[MediaKind, ...]:
    """Return the media that another model takes and this one does not. Files become text, where that is possible."""
    own = _find_own_media(route)
    reads_files = all(one.profile.file_text for one in route.deployments)
    return tuple(kind for kind in _find_own_media(other) if kind not in own and not (kind == "file" and reads_files))


def _find_media(route: ModelRoute) -> tuple[MediaKind, ...]:
    """Return the media that a request for the model may have."""
    return (*_find_own_media(route), *route.described)


def _find_own_media(route: ModelRoute) -> tuple[MediaKind, ...]:
    """Return the media that the model takes on every one of its upstreams."""
    profiles = [deployment.profile for deployment in route.deployments]
    return tuple(kind for kind in profiles[0].media if all(kind in profile.media for profile in profiles))


def _make_deployment(
    settings: Settings,
    targets: Mapping[str, Target],
    model: str,
    upstream: str,
    name: str,
    weight: float = 1.0,
    priority: int = 1,
) -> Deployment:
    return Deployment(targets[upstream], name, settings.profile(model, upstream), weight, priority)


def _make_passthrough_route(
    settings: Settings, targets: Mapping[str, Target], cache_seconds: float | None, model: str
) -> ModelRoute:
    assert settings.passthrough is not None
    deployment = _make_deployment(settings, targets, model, settings.passthrough, model)
    reads = deployment.profile.session_header is not None
    return ModelRoute(model, (deployment,), {}, cache_seconds=cache_seconds, reads_sessions=reads)


def _make_pattern_route(routes: Mapping[str, ModelRoute], pattern: str, model: str) -> ModelRoute | None:
    """Return the route of a name that fits the pattern. Where the model's name at its servers has a `*`, that is what
    the `*` of the pattern stands for; None: it stands for nothing."""
    route = routes[pattern]
    if not any(WILDCARD in deployment.model for deployment in route.deployments):
        return route
    first, _, last = pattern.partition(WILDCARD)
    text = model[len(first) : len(model) - len(last)]
    deployments = tuple(replace(one, model=one.model.replace(WILDCARD, text)) for one in route.deployments)
    return replace(route, deployments=deployments) if text else None


def _find_efforts(profiles: Collection[Profile]) -> list[str]:
    """Return the efforts that every server takes of which they are known, in the order of the first of these."""
    known = [list(profile.efforts) for profile in profiles if profile.efforts is not None]
    return [effort for effort in known[0] if all(effort in efforts for efforts in known)] if known else []


def _find_tools(profiles: Collection[Profile]) -> Literal["native", "text", "prompt"]:
    """Return what all of these upstreams can do at least."""
    if not all(profile.native_tools for profile in profiles):
        return "prompt"
    return "text" if any(profile.text_family for profile in profiles) else "native"


def _find_strategy(row: Model, deployments: Collection[Deployment]) -> Strategy:
    caches = any(deployment.profile.caches_prefixes for deployment in deployments)
    return row.strategy or ("session" if caches else "least_busy")


def _reads_sessions(row: Model, deployments: Collection[Deployment]) -> bool:
    if len(deployments) > 1 and _find_strategy(row, deployments) == "session":
        return True
    return any(deployment.profile.session_header is not None for deployment in deployments)


def _hedge_delay(row: Model) -> HedgeDelay | None:
    return row.hedge_after_seconds or ("p95" if row.hedge else None)


def load_counters(settings: Settings, earlier: TokenCounters | None = None) -> TokenCounters:
    """Load the tokenizer files of the settings, except those that `earlier` has and that have not changed since. Raises
    SettingsError with the place of each file that cannot be used."""
    own = {json_path(["models", name, "profile", "tokenizer"]): row.profile for name, row in settings.models.items()}
    files = {"tokenizer": settings.tokenizer} | {place: fields.get("tokenizer") for place, fields in own.items()}
    try:
        return TokenCounters((file for file in files.values() if file), settings.tokenizer, earlier)
    except TokenizersError as error:
        reasons = error.reasons
        mistakes = [f"{place}: {reasons[file]}" for place, file in files.items() if file in reasons]
        raise SettingsError(mistakes) from error


def list_served_models(settings: Settings, upstream: str) -> dict[str, str]:
    """Return the configured models of an upstream that have a name there, each with this name."""
    return {
        model: row.name or model
        for model, row in settings.models.items()
        if any(one.name == upstream for one in row.upstreams) and not row.is_pattern
    }


def targets(
    settings: Settings, grace_seconds: float = GRACE_SECONDS, credentials: CredentialStore | None = None
) -> dict[str, Target]:
    """Return the targets of the configured upstreams by name. They share a redactor that knows all keys. Those that are
    renewed come from `credentials`, which renews them; without it, they are fetched when they are first needed."""
    store = credentials or CredentialStore()
    renewed = {name: store.get(source) for name, source in list_credential_sources(settings).items()}
    redactor = _redactor(settings.upstreams.values(), [*renewed.values()])
    return {
        name: _make_target(name, row, redactor, grace_seconds, renewed.get(name))
        for name, row in settings.upstreams.items()
    }


def list_secrets(settings: Settings) -> list[str]:
    """Return the keys and other secrets of all upstreams, in each form that a text may have them."""
    return _redactor(settings.upstreams.values(), ()).forms


def _redactor(rows: Collection[Upstream], renewed: Sequence[RenewingCredential]) -> Redactor:
    secrets = [row.api_key for row in rows if row.api_key]
    secrets += [value for row in rows for value in row.headers.values()]
    secrets += [row.proxy for row in rows if row.proxy]
    values = [value for row in rows for _, value in parse_qsl(row.query)]

    def list_renewed() -> list[str]:
        return [value for credential in renewed for value in credential.secrets]

    known = [*(secret.get_secret_value() for secret in secrets), *values]
    return Redactor(known, (row.url for row in rows), list_renewed if renewed else None)


def _make_target(
    name: str,
    row: Upstream,
    redactor: Redactor = EMPTY_REDACTOR,
    grace_seconds: float = GRACE_SECONDS,
    credential: RenewingCredential | None = None,
) -> Target:
    api = find_api(row.api)
    key = row.api_key.get_secret_value() if row.api_key else None
    headers = {header: value.get_secret_value() for header, value in row.headers.items()}
    return Target(
        name,
        api.complete_base_url(row.url),
        request_headers(row.url, api.make_headers(key, row.auth), headers),
        row.connect_seconds,
        row.first_token_seconds,
        row.idle_seconds,
        row.max_connections,
        row.max_reply_bytes,
        row.max_reply_seconds,
        row.whole_reply_seconds,
        tuple(sorted((header.lower(), value) for header, value in headers.items() if header.lower() not in _KEYS)),
        redactor,
        grace_seconds,
        connections=row.connections,
        api=row.api,
        query=row.query,
        auth=row.auth,
        credential=credential,
        paths=dict[str, str](row.paths.items()),
    )
