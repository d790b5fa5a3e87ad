"""claude-code-router's `config.json` (github.com/musistudio/claude-code-router, versions 1 and 2) as Parley's settings.

Its `Router` becomes a virtual model, whose rules are asked in the order in which the router looks. A client of it sends
any name of a model and gets the one that the router chooses, or names one as `provider,model`.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from app.importers.draft import Draft, Row
from app.importers.servers import Api, find_kind
from app.importers.source import Source, to_whole

ROUTER = "ccr"
"""The name of the virtual model."""
_THRESHOLD = 60_000
"""Tokens from which `longContext` answers, if the file does not say."""
_GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
_NEEDLESS_TRANSFORMERS = frozenset(
    {
        *("anthropic", "deepseek", "gemini", "groq", "openai", "openai-response", "openai-responses", "openrouter"),
        *("cleancache", "customparams", "enhancetool", "forcereasoning", "maxcompletiontokens", "reasoning"),
        *("streamoptions", "tooluse"),
    }
)
"""What the kind of a server, its API, or a repair of every reply does without a setting."""
_NEEDLESS = (
    *("LOG", "CLAUDE_PATH", "StatusLine", "NON_INTERACTIVE_MODE", "transformers", "INACTIVITY_TIMEOUT"),
    "forceUseImageAgent",
)
_REASONS = {
    "CUSTOM_ROUTER_PATH": "a router in JavaScript cannot be taken: write rules of the virtual model",
    "plugins": "there are no plugins",
    "presets": "was not read",
}
_ENDS: dict[str, Api] = {
    "/chat/completions": "chat_completions",
    "/messages": "messages",
    "/responses": "responses",
    "/models": "gemini",
}
_LEVELS = {"fatal": "error", "error": "error", "warn": "warning", "info": "info", "debug": "debug", "trace": "debug"}


_Transformers = list[tuple[str, Mapping[str, Any]]]
"""The name and the options of each transformer."""


class _Provider(Struct, frozen=True):
    source: Source
    name: str
    upstream: str
    used: _Transformers
    """The transformers of all its models."""
    own: dict[str, _Transformers]
    """Those of one model."""


def import_ccr(config: Mapping[str, Any]) -> Draft:
    draft = Draft()
    source = Source(config, "", draft)
    common = _read_common(source)
    providers: dict[str, _Provider] = {}
    for row in (*source.take_rows("Providers"), *source.take_rows("providers")):
        provider = _add_provider(row, common, draft)
        if provider is not None:
            providers.setdefault(provider.name, provider)
    chosen = _add_router(source.take_table("Router"), providers, draft)
    _add_fallbacks(source.take_table("fallback"), chosen, providers, draft)
    _read_server(source, draft)
    if source.take_list("transformers"):
        source.note("transformers", "a transformer in JavaScript cannot be taken")
    custom = source.take_text("CUSTOM_ROUTER_PATH")
    if custom:
        source.note("CUSTOM_ROUTER_PATH", _REASONS["CUSTOM_ROUTER_PATH"])
    source.skip(*_NEEDLESS)
    source.note_rest(_REASONS)
    return draft


def _read_variable(text: str) -> str:
    """Return a text in which `$NAME` is a variable in Parley's form."""
    return re.sub(r"\$(?!\{)([A-Za-z_][A-Za-z0-9_]*)", r"${\1}", text)


def _read_common(source: Source) -> Row:
    """Return what all servers have."""
    row: Row = {}
    milliseconds, proxy = source.take_number("API_TIMEOUT_MS"), _read_variable(source.take_text("PROXY_URL"))
    if milliseconds:
        row["first_token_seconds"] = row["whole_reply_seconds"] = milliseconds / 1000
    if proxy:
        row["proxy"] = proxy
    return row


def _add_provider(source: Source, common: Row, draft: Draft) -> _Provider | None:
    """Add a server and its models. None: it is not taken, which is noted."""
    name, address = source.take_text("name"), _read_variable(source.take_text("api_base_url"))
    key, models = _read_variable(source.take_text("api_key")), source.take_list("models")
    transformers = source.take_table("transformer")
    used = list(_list_transformers(transformers.take("use")))
    if not name or not address:
        source.note("", "has no name, or no api_base_url")
        return None
    if any("vertex" in one for one, _ in used) or "aiplatform.googleapis.com" in address:
        source.note("api_base_url", "servers of Vertex AI are not taken: docs/start/servers.md has their lines")
        return None
    base_url, api = _read_address(address)
    row: Row = {"base_url": base_url}
    if api != "chat_completions":
        row["api"] = api
    kind = find_kind(base_url, api)
    if kind not in ("openai_compatible", "anthropic_compatible"):
        row["kind"] = kind
    if key:
        row["api_key"] = key
    upstream = draft.add_upstream(name, {**row, **common})
    own = {model: list(_list_transformers(_find_use(transformers.take(model)))) for model in transformers.names()}
    provider = _Provider(source, name, upstream, used, own)
    for model in models:
        if isinstance(model, str):
            _add_model(provider, model, draft)
    source.skip("stream", "enabled", "id", "icon")
    source.note_rest({})
    return provider


def _find_use(value: Any) -> Any:
    return value.get("use") if isinstance(value, Mapping) else value


def _list_transformers(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the options of each transformer."""
    for one in value if isinstance(value, list) else []:
        if isinstance(one, str):
            yield one, {}
        elif isinstance(one, list) and one and isinstance(one[0], str):
            yield one[0], one[1] if len(one) > 1 and isinstance(one[1], Mapping) else {}


def _read_address(address: str) -> tuple[str, Api]:
    """Return the base URL and the API of a server; the file has the whole URL of its requests."""
    if "generativelanguage.googleapis.com" in address:
        return _GEMINI, "chat_completions"
    for end, api in _ENDS.items():
        if address.rstrip("/").endswith(end):
            return address.rstrip("/").removesuffix(end), api
    return address.rstrip("/"), "chat_completions"


def _add_model(provider: _Provider, name: str, draft: Draft) -> None:
    alias = f"{provider.name},{name}"
    if draft.find_model(alias) is not None:
        return
    own = name if draft.find_model(name) is None else alias
    row: Row = {"upstreams": [provider.upstream]}
    if own == alias:
        row["name"] = name
    else:
        row["aliases"] = [alias]
    for transformer, options in (*provider.used, *provider.own.get(name, ())):
        _apply_transformer(transformer.lower(), options, row, provider.source)
    draft.models[own] = row


def _apply_transformer(name: str, options: Mapping[str, Any], row: Row, source: Source) -> None:
    most = options.get("max_tokens")
    if name in ("maxtoken", "maxcompletiontokens") and isinstance(most, int) and not isinstance(most, bool):
        if most > 0:
            row["profile"] = {"max_output_tokens": most}
        return
    provider = options.get("provider")
    if name == "openrouter" and isinstance(provider, Mapping):
        row["defaults"] = {"extra_body": {"provider": dict(provider)}}
    elif name not in _NEEDLESS_TRANSFORMERS:
        source.note("transformer", f"{name!r} was not taken")


def _add_router(router: Source, providers: Mapping[str, _Provider], draft: Draft) -> dict[str, str]:
    """Add the virtual model, and return the model that each of the router's keys names."""
    threshold = to_whole(router.take_number("longContextThreshold") or _THRESHOLD)
    if not router.has("default"):
        router.note("default", "is missing: clients name one of the models")
    default = _find_model(router, "default", providers, draft)
    # The order in which its `getUseModel` looks; images are looked for before, by an agent of its own.
    conditions: list[tuple[str, Row]] = [
        ("image", {"media": "image"}),
        ("longContext", {"tokens_above": threshold}),
        ("background", {"model": "*haiku*"}),
        ("webSearch", {"tool": "web_search*"}),
        ("websearch", {"tool": "web_search*"}),
        ("think", {"thinking": True}),
    ]
    rules: list[Row] = []
    chosen: dict[str, str] = {}
    for key, when in conditions:
        model = _find_model(router, key, providers, draft)
        if model is not None and default is None:
            router.note(key, "is not taken without a `default`")
        elif model is not None:
            rules.append({"when": when, "use": model})
            chosen[key] = model
    router.skip("forceUseImageAgent")
    router.note_rest({})
    if default is None:
        return {}
    while rules and rules[-1]["use"] == default:
        rules.pop()
    name = ROUTER if draft.find_model(ROUTER) is None else f"{ROUTER}-router"
    draft.models[name] = {"use": default, **({"rules": rules} if rules else {}), "aliases": ["*"]}
    draft.others["default_model"] = name
    return {"default": default, **chosen}


def _add_fallbacks(source: Source, chosen: Mapping[str, str], providers: Mapping[str, _Provider], draft: Draft) -> None:
    """Add the models that version 2 asks when the one of a key of the router fails."""
    for key in source.names():
        named = [_name_model(name, providers, draft) for name in map(str, source.take_list(key))]
        if None in named:
            source.note(key, "not all of its models are there")
        model = chosen.get(key)
        others = [one for one in named if one is not None and one != model]
        if named and model is None:
            source.note(key, "the router names no model for it")
        elif others and draft.models[str(model)].setdefault("fallbacks", others) != others:
            source.note(key, f"{model!r} has the fallbacks of another key already")


def _find_model(router: Source, key: str, providers: Mapping[str, _Provider], draft: Draft) -> str | None:
    """Return the model that the router names. A name that the list of its provider lacks is added, because the router
    sends it as it is (github.com/musistudio/llms, src/server.ts)."""
    named = router.take_text(key)
    model = _name_model(named, providers, draft) if named else None
    if named and model is None:
        router.note(key, f"there is no model {named[:100]!r}")
    return model


def _name_model(named: str, providers: Mapping[str, _Provider], draft: Draft) -> str | None:
    provider, _, name = named.partition(",")
    if name and provider in providers:
        _add_model(providers[provider], name, draft)
    return draft.find_model(named)


def _read_server(source: Source, draft: Draft) -> None:
    server: Row = {}
    host, port = source.take_text("HOST"), source.take_number("PORT")
    key = _read_variable(source.take_text("APIKEY"))
    if host and (key or host in ("127.0.0.1", "localhost", "::1")):
        server["host"] = host
    if port and port < 65536:
        server["port"] = to_whole(port)
    level = _LEVELS.get(source.take_text("LOG_LEVEL").lower())
    if level:
        server["log_level"] = level
    if server:
        draft.others["server"] = server
    if key.startswith("${"):
        draft.others["keys"] = {ROUTER: {}}
        source.note("APIKEY", f'set PARLEY_API_KEYS="{ROUTER}:{key}"')
    elif key:
        draft.others["keys"] = {ROUTER: {"sha256": hashlib.sha256(key.encode()).hexdigest()}}
