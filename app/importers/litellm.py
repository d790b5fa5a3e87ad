"""LiteLLM's `config.yaml` (docs.litellm.ai/docs/proxy/config_settings) as Parley's settings.

Deployments of one `model_name` become the upstreams of one model if they have the same name at their servers. Others
become models of their own, which are its fallbacks, because a model of Parley has one name at all its upstreams.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.importers.draft import Draft, Row
from app.importers.litellm_settings import (
    NEEDLESS,
    REASONS,
    add_tool_servers,
    note_variables,
    read_general,
    read_module,
    read_variable,
)
from app.importers.servers import CLOUDFLARE_PATH, GOOGLE_PATH, PROVIDERS, Api, Provider, find_kind, name_server
from app.importers.source import Source, to_whole
from app.profiles import find_profile

_OWN_API = "has an API of its own, which Parley does not speak: put a server of one of its APIs in front of it"
_VERTEX = "of Vertex AI, only models of Gemini have an API that Parley speaks"
_EVERY_PROVIDER = (
    "every name goes to OpenAI, not to the provider that it begins with: write a model for each other one, such as"
    " model_name 'anthropic/*' with model 'anthropic/*'"
)
_NO_CONVERSATION = "Google's own API has no path for {!r}: put a server of OpenAI's API in front of it"
_OTHER_PROVIDERS = {
    **dict.fromkeys(
        ("aleph_alpha", "bedrock", "bedrock_converse", "databricks", "github_copilot", "huggingface", "nlp_cloud")
        + ("oci", "palm", "petals", "predibase", "replicate", "sagemaker", "sagemaker_chat", "snowflake", "triton")
        + ("vllm", "watsonx", "watsonx_text"),
        _OWN_API,
    ),
    # github.blog/changelog/2026-07-01-github-models-is-being-fully-retired-on-july-30-2026
    "github": "has ended: GitHub offers no models since July 2026",
}
"""Prefixes of LiteLLM's whose servers speak none of Parley's APIs at a known address, or that are no server: why."""
_VERTEX_PROVIDERS = ("vertex_ai", "vertex_ai_beta")
_MODES = {
    "chat": None,
    "responses": None,
    "completion": "completions",
    "embedding": "embeddings",
    "rerank": "rerank",
    "moderation": "moderations",
    "image_generation": "images",
    "image_edit": "images",
    "audio_transcription": "audio",
    "audio_speech": "speech",
    # Not LiteLLM's words, but in files of many:
    "embeddings": "embeddings",
    "tts": "speech",
}
"""`model_info.mode`, and what the model serves; None: conversations."""
_GUESSED_ENDPOINTS = (
    (r"embed|bge-(m3|small|base|large)|\be5-", "embeddings"),
    (r"rerank", "rerank"),
    (r"whisper|transcribe", "audio"),
    (r"(^|[^a-z])tts|kokoro", "speech"),
    (r"dall-e|gpt-image|stable-diffusion|flux", "images"),
)
_DEFAULTS = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "reasoning_effort",
    "extra_body",
)
"""Parameters of `litellm_params` that are parameters of a request too."""
_PRICES = (
    ("input", "input_cost_per_token", 1_000_000),
    ("output", "output_cost_per_token", 1_000_000),
    ("cached_input", "cache_read_input_token_cost", 1_000_000),
    ("cache_write", "cache_creation_input_token_cost", 1_000_000),
    ("reasoning", "output_cost_per_reasoning_token", 1_000_000),
    ("per_image", "input_cost_per_image", 1),
    ("per_image", "output_cost_per_image", 1),
    ("per_minute", "input_cost_per_second", 60),
    ("per_search", "input_cost_per_query", 1000),
    ("per_character", "input_cost_per_character", 1_000_000),
)
"""A price of Parley, LiteLLM's cost of one, and how many of these Parley's is for."""
_LAST = 100
"""The priority of the upstreams that are asked after all others."""
_STRATEGIES = {"simple-shuffle": "weighted", "least-busy": "least_busy"}
_LACKED = frozenset(
    ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed")
    + ("logit_bias", "logprobs", "top_logprobs", "stop")
)
"""Parameters that `lacks` of a profile leaves out."""
_PARAMS_REASONS = {
    "cooldown_time": REASONS["cooldown_time"],
    "input_cost_per_second": "only files of audio have a price by time: per_minute",
    "output_cost_per_second": "only files of audio have a price by time: per_minute",
    "region_name": "is of a provider whose API Parley does not speak",
    "aws_region_name": "is of a provider whose API Parley does not speak",
    "rpm_limit": "is called rpm",
    "tpm_limit": "is called tpm",
    "tags": "use rules of a virtual model, or keys",
    "mock_response": "the model `demo` answers without a server",
    "cache_control_injection_points": "`cache_control` of requests is passed on",
    "budget_duration": "limits of spending are for keys, teams and models: spend_per_day, spend_per_month",
    "max_budget": "limits of spending are for keys, teams and models: spend_per_day, spend_per_month",
    "ssl_verify": "certificates are checked: set ca_file of the upstream",
    "vertex_credentials": "set VERTEX_TOKEN, or api_key_command of the upstream: docs/operate/credentials.md",
}
_NEEDLESS_INFO = (
    "id",
    "base_model",
    "description",
    "db_model",
    "max_output_tokens",
    "supports_vision",
    "supports_reasoning",
    "supports_system_messages",
    "supports_parallel_function_calling",
    "supports_response_schema",
    "supports_prompt_caching",
    "output_vector_size",
)


class _Deployment(Struct, frozen=True):
    upstream: str
    name: str
    """The name of the model at the server."""
    weight: float | None
    priority: int
    row: Row
    """What else the model has."""
    limits: dict[str, float]


class _Defaults(Struct, frozen=True):
    """What all deployments have, unless they say otherwise."""

    retries: float | None
    seconds: float | None
    first_seconds: float | None
    """Until the first token."""
    credentials: Mapping[str, Mapping[str, Any]]
    """What `litellm_credential_name` names."""


def import_litellm(config: Mapping[str, Any]) -> Draft:
    draft = Draft()
    source = Source(config, "", draft)
    module, router = source.take_table("litellm_settings"), source.take_table("router_settings")
    retries = router.take_count("num_retries")
    if retries is None:
        retries = module.take_count("num_retries")
    module.skip("num_retries")
    seconds = router.take_number("timeout") or module.take_number("request_timeout")
    first_seconds = router.take_number("stream_timeout")
    groups: dict[str, list[_Deployment]] = {}
    defaults = _Defaults(retries, seconds, first_seconds, _read_credential_list(source))
    rows = list(source.take_rows("model_list"))
    if not rows:
        source.note("model_list", "is empty: models that LiteLLM keeps in its database are not read")
    for row in rows:
        _read_deployment(row, defaults, draft, groups)
    strategy = _read_strategy(router)
    taken = {*groups}
    for name, deployments in groups.items():
        _add_model(name, deployments, strategy, draft, taken)
    _add_aliases(router.take_table("model_group_alias"), draft)
    for table in (router, module):
        _add_fallbacks(table, draft)
    default = router.take_text("default_model")
    if default and draft.find_model(default):
        draft.others["default_model"] = default
    router.skip(*NEEDLESS, "model_group_alias")
    router.note_rest(REASONS)
    read_module(module, draft)
    read_general(source.take_table("general_settings"), draft)
    note_variables(source.take_table("environment_variables"))
    add_tool_servers(source.take_table("mcp_servers"), draft)
    source.note_rest({"include": "import each file by itself", "guardrails": "was not read"})
    return draft


def _read_credential_list(source: Source) -> dict[str, Mapping[str, Any]]:
    """Return the addresses and keys that several deployments share, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in source.take_rows("credential_list"):
        name, values = row.take_text("credential_name"), row.take_table("credential_values")
        if name in found:
            row.note("credential_name", f"{name[:60]!r} is there twice: the first one counts")
        found.setdefault(name, values.take_all())
        row.skip("credential_info")
        row.note_rest({})
    return found


def _read_deployment(source: Source, defaults: _Defaults, draft: Draft, groups: dict[str, list[_Deployment]]) -> None:
    group = source.take_text("model_name")
    params, info = source.take_table("litellm_params"), source.take_table("model_info")
    credential = params.take_text("litellm_credential_name")
    if credential in defaults.credentials:
        params.fill(defaults.credentials[credential])
    elif credential:
        params.note("litellm_credential_name", f"there is no credential {credential[:60]!r} in credential_list")
    provider, name = _find_provider(params)
    if provider is None or not group or not name:
        if provider is not None:
            source.note("", "has no model_name, or no model")
        return
    if "*" in name and group != "*" and not name.count("*") == group.count("*") == 1:
        source.note("litellm_params.model", f"the pattern {name!r} is not taken: list the models of {group!r}")
        return
    row, limits = _read_row(params, info, group, name), _read_limits(params)
    retries = _read_retries(params, defaults)
    if retries:
        row["max_retries"] = retries
    upstream = _add_upstream(params, provider, row, defaults, draft)
    if upstream is None:
        return
    if lacks := _read_lacks(params, draft.upstreams[upstream]):
        row["profile"] = {**row.get("profile", {}), "lacks": lacks}
    weight = params.take_count("weight")
    order = params.take_count("order")
    priority = 1 if order is None else round(order)
    if weight == 0:  # it is asked only when all others fail
        weight, priority = None, _LAST
    params.skip(*NEEDLESS, "custom_llm_provider", "merge_reasoning_content_in_choices", "use_in_pass_through")
    params.note_rest(_PARAMS_REASONS)
    info.skip(*_NEEDLESS_INFO)
    info.note_rest(_PARAMS_REASONS)
    if group == "*":
        _set_passthrough(params, upstream, draft)
        return
    groups.setdefault(group, []).append(_Deployment(upstream, name, weight, min(priority, _LAST), row, limits))


def _read_lacks(params: Source, server: Row) -> list[str]:
    """Return the parameters that are left out for a model: a list in a profile replaces that of the kind of server."""
    known = find_profile(server.get("kind", "openai_compatible"), server.get("api", "chat_completions")).lacks
    added: list[str] = []
    for name in map(str, params.take_list("additional_drop_params")):
        if name not in _LACKED:
            params.note("additional_drop_params", f"{name[:60]!r} cannot be left out for one model")
        elif name not in known:
            added.append(name)
    return [*known, *added] if added else []


def _read_retries(params: Source, defaults: _Defaults) -> int:
    """Return how often a request is sent again: a deployment may say 0 where the others have more."""
    given = [params.take_count("num_retries"), params.take_count("max_retries"), defaults.retries]
    return min(round(next((number for number in given if number is not None), 0)), 10)


def _set_passthrough(params: Source, upstream: str, draft: Draft) -> None:
    if draft.others.setdefault("passthrough", upstream) != upstream:
        params.note("model", "only one server can get all other names of models")


def _find_provider(params: Source) -> tuple[Provider | None, str]:
    """Return the provider of a model, and the name of the model there. None: it is not taken, which is noted."""
    model, custom = params.take_text("model"), params.take_text("custom_llm_provider")
    if read_variable(model) != model.strip():
        params.note("model", f"{model[:100]!r} is a variable: write the name of the model")
        return None, ""
    prefix, mark, rest = model.partition("/")
    if custom:
        rest = rest if prefix == custom and mark else model
        prefix = custom
    elif not mark or prefix not in {*PROVIDERS, *_OTHER_PROVIDERS, *_VERTEX_PROVIDERS}:
        has_address = params.has("api_base") or params.has("base_url")
        prefix, rest = _guess_provider(model, has_address=has_address), model
        if model == "*" and not has_address:
            params.note("model", _EVERY_PROVIDER)
    if rest.startswith("responses/") and prefix in ("openai", "azure"):
        rest = rest.removeprefix("responses/")
        return _with_api(PROVIDERS[prefix], "responses"), rest
    if prefix in PROVIDERS:
        return PROVIDERS[prefix], _complete_name(prefix, rest)
    if prefix in _VERTEX_PROVIDERS:
        return _find_vertex(params, rest), rest
    if prefix in _OTHER_PROVIDERS:
        params.note("model", f"the provider {prefix!r} {_OTHER_PROVIDERS[prefix]}")
    else:
        params.note("model", f"the provider of {model[:100]!r} is not known: add an upstream with its base_url")
    return None, rest


def _find_vertex(params: Source, name: str) -> Provider | None:
    """Return the server of a model of Vertex AI. Its project and place are LiteLLM's parameters or its variables."""
    project, place = (
        read_variable(params.take_text(f"vertex_{key}") or params.take_text(f"vertex_ai_{key}"))
        for key in ("project", "location")
    )
    if not name.startswith("gemini"):
        params.note("model", _VERTEX)
        return None
    place = place or "us-central1"
    host = "aiplatform.googleapis.com" if place == "global" else f"{place}-aiplatform.googleapis.com"
    path = f"/v1/projects/{project or '${VERTEXAI_PROJECT}'}/locations/{place}{GOOGLE_PATH}"
    return Provider(f"https://{host}{path}", "vertex", "VERTEX_TOKEN", "gemini")


def _with_api(provider: Provider, api: Api) -> Provider:
    return Provider(provider.base_url, provider.kind, provider.key_variable, api, provider.path)


def _guess_provider(model: str, *, has_address: bool) -> str:
    """Return the provider of a model without a prefix, as LiteLLM does for the names that it knows."""
    if (
        model == "*"
        or has_address
        or re.match(r"(gpt-|chatgpt-|o[134](-|$)|text-embedding-|dall-e|whisper|tts-)", model)
    ):
        return "openai"
    if model.startswith("claude-"):
        return "anthropic"
    if model.startswith("gemini-"):
        return "vertex_ai"
    return ""


def _complete_name(prefix: str, name: str) -> str:
    if prefix == "fireworks_ai" and not name.startswith("accounts/"):
        return f"accounts/fireworks/models/{name}"
    return name


def _add_upstream(params: Source, provider: Provider, row: Row, defaults: _Defaults, draft: Draft) -> str | None:
    address = read_variable(params.take_text("api_base") or params.take_text("base_url"))
    params.skip("base_url", "api_version")
    base_url = _complete_address(address, provider) if address else provider.base_url
    if base_url is None:
        params.note("api_base", "is needed: the address of the server")
        return None
    if provider.kind == "gemini" and address and not base_url.endswith("/openai"):
        # LiteLLM adds `/models/NAME:generateContent` to it (its vertex_llm_base.py, October 2026).
        provider = _with_api(provider, "gemini")
    if provider.api == "gemini" and "endpoints" in row:
        params.note("model", _NO_CONVERSATION.format(row["endpoints"][0]))
        return None
    found: Row = {"base_url": base_url}
    if provider.api != "chat_completions":
        found["api"] = provider.api
    is_google = provider.api == "gemini"
    kind = provider.kind
    if address and (kind in ("openai", "anthropic") or is_google) and provider.path != "/openai/v1":
        kind = find_kind(base_url, provider.api)
    if kind != "openai_compatible":
        found["kind"] = kind
    found |= _read_credentials(params, provider, has_address=bool(address))
    first = params.take_number("stream_timeout") or defaults.first_seconds
    whole = params.take_number("timeout") or defaults.seconds
    if first or whole:
        found["first_token_seconds"] = first or whole
    if whole:
        found["whole_reply_seconds"] = whole
    name = next((name for name, one in PROVIDERS.items() if one.base_url == base_url), None) or name_server(base_url)
    return draft.add_upstream(name, found)


def _read_credentials(params: Source, provider: Provider, *, has_address: bool) -> Row:
    """Return the key of a server, and the headers that it gets."""
    found: Row = {}
    headers = _read_headers(params)
    key = read_variable(params.take_text("api_key"))
    is_of_litellm = not has_address or provider.base_url is None or provider.kind == "vertex"
    if not key and provider.key_variable and is_of_litellm:
        key = f"${{{provider.key_variable}}}"
        if provider.kind == "vertex":
            found["auth"] = "bearer"
    if key and provider.path == "/openai/v1":
        headers["api-key"] = key
    elif key:
        found["api_key"] = key
    if headers:
        found["headers"] = headers
    return found


def _complete_address(address: str, provider: Provider) -> str:
    address = re.sub(r"/(chat/completions|v1/messages|messages)/?$", "", address).rstrip("/")
    if provider.path == CLOUDFLARE_PATH:  # LiteLLM has the address of its own API of models
        address = re.sub(r"/ai/run$", "", address)
    if provider.kind in ("gemini", "vertex"):
        address = re.sub(r"/models(/[^/]*)?$", "", address)
    if provider.path == "/openai/v1":  # Azure: what stands behind the resource is of a version of the API
        address = re.sub(r"/openai(/.*)?$", "", address)
    if provider.path and not address.endswith(provider.path):
        return address + provider.path
    return address


def _read_headers(params: Source) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key in ("extra_headers", "headers"):
        for name, value in params.take_table(key).take_all().items():
            headers[name] = read_variable(str(value))
    organization = params.take_text("organization")
    if organization:
        headers["OpenAI-Organization"] = read_variable(organization)
    return headers


def _read_row(params: Source, info: Source, group: str, name: str) -> Row:
    """Return what a model has beside its upstreams."""
    row: Row = {}
    endpoints = _read_endpoint(info, group, name)
    if endpoints is not None:
        row["endpoints"] = [endpoints]
    window = params.take_number("context_window") or info.take_number("max_input_tokens")
    window = window or info.take_number("max_tokens")
    info.skip("max_input_tokens", "max_tokens")
    if window:
        row["context_window"] = to_whole(window)
    defaults = _read_defaults(params) | _read_thinking(params)
    if defaults:
        row["defaults"] = defaults
    price = _read_price(params, info, endpoints)
    if price:
        row["price"] = price
    if info.take("supports_function_calling") is False:
        row["profile"] = {"native_tools": False}
    return row


def _read_defaults(params: Source) -> Row:
    """Return parameters of requests. One whose value is in the environment is noted: it may be a number."""
    found: Row = {}
    for key in _DEFAULTS:
        value = params.take(key)
        if "os.environ/" in str(value):
            params.note(key, "is in a variable: write its value into `defaults` of the model")
        elif value is not None:
            found[key] = value
    return found


def _read_thinking(params: Source) -> Row:
    """Return Anthropic's `thinking`, which LiteLLM takes for every provider, as parameters of a request."""
    thinking = params.take_table("thinking")
    kind, budget = thinking.take_text("type"), thinking.take_number("budget_tokens")
    if kind not in ("enabled", "disabled"):
        return {}
    return {"enable_thinking": kind == "enabled", **({"thinking_budget": to_whole(budget)} if budget else {})}


def _read_endpoint(info: Source, group: str, name: str) -> str | None:
    mode = info.take_text("mode")
    if mode in _MODES:
        return _MODES[mode]
    said = f"{mode[:60]!r} is not taken" if mode else "is missing"
    for pattern, endpoint in _GUESSED_ENDPOINTS:
        if re.search(pattern, f"{group} {name}".lower()):
            info.note("mode", f"{said}: {endpoint!r} was guessed from the name")
            return endpoint
    if mode:
        info.note("mode", f"{said}: the model serves conversations")
    return None


def _read_price(params: Source, info: Source, endpoints: str | None) -> Row:
    price: Row = {}
    for own, name, count in _PRICES:
        if own == "per_minute" and endpoints not in ("audio", "speech"):
            continue
        value = params.take(name) if params.has(name) else info.take(name)
        info.skip(name)
        try:
            amount = round(float(value) * count, 6) if value is not None else None
        except (TypeError, ValueError):
            amount = None
        if amount is not None and 0 <= amount <= 1_000_000:
            price[own] = amount
    if price and not {"input", "output"} <= {*price}:
        price = {"input": 0.0, "output": 0.0, **price}
    return price


def _read_limits(params: Source) -> dict[str, float]:
    found = {
        "requests_per_minute": params.take_number("rpm"),
        "tokens_per_minute": params.take_number("tpm"),
        "concurrent_streams": params.take_number("max_parallel_requests"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _read_strategy(router: Source) -> str | None:
    given = router.take_text("routing_strategy")
    if given and given not in _STRATEGIES:
        router.note("routing_strategy", f"{given!r} has no counterpart: the default, session or least_busy, is used")
    return _STRATEGIES.get(given)


def _add_model(group: str, deployments: list[_Deployment], strategy: str | None, draft: Draft, taken: set[str]) -> None:
    """Add the deployments of one name. `taken` has the names of models, to which those that are made here are added."""
    by_name: dict[str, list[_Deployment]] = {}
    if any(one.priority == 0 for one in deployments):  # the first one of LiteLLM; a priority is 1 or more
        deployments = [replace(one, priority=min(one.priority + 1, _LAST)) for one in deployments]
    for one in deployments:
        by_name.setdefault(one.name, []).append(one)
    ordered = sorted(by_name.items(), key=lambda item: min(one.priority for one in item[1]))
    is_pattern = "*" in group
    first = _find_free_name(group.replace("*", "").strip("-/.: ") or "any", taken) if is_pattern else group
    others: list[str] = []
    for number, (name, members) in enumerate(ordered):
        own = first if number == 0 else _find_free_name(f"{first}-{number + 1}", taken)
        draft.models[own] = _make_row(own, name, members, strategy)
        if number:
            others.append(own)
    if is_pattern:
        draft.models[first]["aliases"] = [group]
    if others:
        draft.models[first]["fallbacks"] = others
        text = f"its deployments have other names at their servers: they are the fallbacks {', '.join(others)}"
        draft.note(f"model_list: {group}", text)


def _find_free_name(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found


def _make_row(own: str, name: str, members: list[_Deployment], strategy: str | None) -> Row:
    row: Row = {"upstreams": _list_upstreams(members)}
    if name != own:
        row["name"] = name
    if strategy and len(row["upstreams"]) > 1:
        row["strategy"] = strategy
    for one in reversed(members):
        row |= one.row
    limits: dict[str, int] = {}
    for limit in ("requests_per_minute", "tokens_per_minute", "concurrent_streams"):
        numbers = [one.limits[limit] for one in members if limit in one.limits]
        if len(numbers) == len(members):
            limits[limit] = to_whole(sum(numbers))
    return {**row, "limits": limits} if limits else row


def _list_upstreams(members: list[_Deployment]) -> list[Any]:
    """Return the upstreams of a model. Without weights, they are those of the limits, as LiteLLM's shuffle has it."""
    weights = [one.weight for one in members]
    for limit in ("requests_per_minute", "tokens_per_minute"):
        if not any(weights):
            weights = [one.limits.get(limit) for one in members]
    least = min((weight for weight in weights if weight), default=1.0)
    found: dict[str, Row] = {}
    for one, weight in zip(members, weights, strict=True):
        known = found.setdefault(one.upstream, {"name": one.upstream, "weight": 0.0, "priority": one.priority})
        known["weight"] = min(known["weight"] + round((weight or least) / least, 3), 1000.0)
        known["priority"] = min(known["priority"], one.priority)
    equal = len({row["weight"] for row in found.values()}) == 1
    return [_shorten(row, with_weight=not equal) for row in found.values()]


def _shorten(row: Row, *, with_weight: bool) -> Any:
    short = {key: value for key, value in row.items() if key == "name" or (key == "weight" and with_weight)}
    if row["priority"] != 1:
        short["priority"] = row["priority"]
    return short if len(short) > 1 else row["name"]


def _add_aliases(aliases: Source, draft: Draft) -> None:
    for alias, value in aliases.take_all().items():
        target = value.get("model") if isinstance(value, Mapping) else value
        model = draft.find_model(target) if isinstance(target, str) else None
        if model is None:
            aliases.note(alias, f"there is no model {str(target)[:100]!r}")
        elif draft.find_model(alias) is not None:
            aliases.note(alias, "is the name of a model too")
        else:
            draft.models[model].setdefault("aliases", []).append(alias)


def _add_fallbacks(source: Source, draft: Draft) -> None:
    for key, own in (
        ("fallbacks", "fallbacks"),
        ("context_window_fallbacks", "fallbacks_on_context_length"),
        ("content_policy_fallbacks", "fallbacks_on_content_filter"),
    ):
        for row in source.take_rows(key):
            for model, names in row.take_all().items():
                if model == "*":
                    _add_default_fallbacks(names, row, draft)
                else:
                    _add_fallbacks_of(model, own, names, row, draft)
    if source.has("default_fallbacks"):
        names = source.take("default_fallbacks")
        _add_default_fallbacks(names, Source({}, source.place("default_fallbacks"), draft), draft)


def _add_default_fallbacks(names: Any, source: Source, draft: Draft) -> None:
    for model, row in draft.models.items():
        if not row.get("fallbacks"):
            _add_fallbacks_of(model, "fallbacks", names, source, draft)


def _add_fallbacks_of(name: str, key: str, names: Any, source: Source, draft: Draft) -> None:
    model = draft.find_model(name)
    if model is None:
        source.note(name, "the model was not taken")
        return
    row = draft.models[model]
    for one in names if isinstance(names, list) else [names]:
        other = draft.find_model(one) if isinstance(one, str) else None
        if other is None:
            source.note(name, f"the fallback {str(one)[:100]!r} was not taken")
        elif "*" in draft.models[other].get("name", ""):
            source.note(name, f"the fallback {str(one)[:100]!r} is a pattern: name one of its models")
        elif row.get("endpoints") != draft.models[other].get("endpoints"):
            source.note(name, f"the fallback {other!r} serves other endpoints")
        elif other != model and other not in row.get(key, []):
            row[key] = [*row.get(key, []), other]
