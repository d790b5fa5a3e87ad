"""What a `config.yaml` of LiteLLM has beside its models: the cache, callbacks, the master key, servers of tools."""

import base64
import hashlib
import re
from urllib.parse import quote

from app.importers.draft import Draft, Row
from app.importers.source import Source

_CALLBACKS = {
    "prometheus": "/metrics is always there",
    "otel": "set [tracing], and the extra otel",
    "langfuse_otel": "set [tracing], and the extra otel",
}
REASONS = {
    # of router_settings
    "allowed_fails": "a circuit breaker needs no setting",
    "cooldown_time": "a circuit breaker needs no setting",
    "allowed_fails_policy": "a circuit breaker needs no setting",
    "retry_policy": "max_retries of a model is for every failure that may pass",
    "retry_after": "a server's Retry-After is obeyed",
    "enable_pre_call_checks": "use fallbacks_on_context_length",
    "enable_tag_filtering": "use rules of a virtual model, or keys",
    "redis_host": "limits are counted in the Redis of cache.url",
    "redis_port": "limits are counted in the Redis of cache.url",
    "redis_password": "limits are counted in the Redis of cache.url",
    "redis_url": "limits are counted in the Redis of cache.url",
    "routing_strategy_args": "a strategy has no settings",
    # of litellm_settings
    "callbacks": "there are no callbacks",
    "max_budget": "set spend_per_month of [limits]",
    "budget_duration": "set spend_per_day or spend_per_month of [limits]",
    "modify_params": "what a server does not take is changed with a warning",
    "json_logs": "set server.log_format",
    "health_check_interval": "set health_path and health_seconds of an upstream",
    "background_health_checks": "set health_path and health_seconds of an upstream",
    "log_level": "set server.log_level",
    "max_end_user_budget": "set limits_per_user of a key: docs/operate/users.md",
    "default_end_user_params": "set limits_per_user of a key: docs/operate/users.md",
    "extra_spend_tag_headers": "tags are in the header x-parley-tags: docs/operate/usage.md",
    "timezone": "set usage.time_zone",
    "guardrails": "was not read",
    "ssl_verify": "certificates are checked: set ca_file of an upstream",
    # of general_settings
    "database_url": "keys, teams and budgets of it are not read: docs/guides/from-litellm.md says how keys move",
    "store_model_in_db": "those of the database are not read; parley.toml is reloaded when it changes",
    "alerting": "deploy/prometheus/alerts.yml has alerts",
    "alerting_threshold": "deploy/prometheus/alerts.yml has alerts",
    "enable_jwt_auth": "write [jwt.NAME]: docs/operate/jwt.md",
    "litellm_jwtauth": "write [jwt.NAME]: docs/operate/jwt.md",
    "pass_through_endpoints": "only paths of the models' APIs pass through: name other services to your proxy",
    "max_parallel_requests": "set concurrent_streams of [limits]",
    "global_max_parallel_requests": "set server.max_concurrent_requests",
    "ui_access_mode": "the page has no users of its own: its administrators have keys",
    "user_header_name": 'set users = "header:NAME" of a key: docs/operate/users.md',
    "user_header_mappings": 'set users = "header:NAME" of a key: docs/operate/users.md',
    "custom_auth": "write [jwt.NAME] or keys: docs/operate/jwt.md",
}
"""Of settings for all models, by their names: files of many have them in another table than LiteLLM's pages."""
_MODULE_REASONS = {**REASONS, "request_timeout": "router_settings.timeout counts before it"}
_TOOL_HEADERS = {
    "bearer_token": ("Authorization", "Bearer "),
    "authorization": ("Authorization", ""),
    "api_key": ("X-API-Key", ""),
}
"""The header that a tool server of this `auth_type` reads, and the text in it before the credential
(docs.litellm.ai/docs/mcp_authentication, October 2026)."""
NEEDLESS = (
    "drop_params",
    "set_verbose",
    "telemetry",
    "suppress_debug_info",
    "turn_off_message_logging",
    "redact_user_api_key_info",
)
"""What Parley does without a setting, or what is about LiteLLM itself."""


def read_variable(text: str) -> str:
    """Return a text in which `os.environ/NAME` is a variable in Parley's form."""
    return re.sub(r"^os\.environ/([A-Za-z_][A-Za-z0-9_]*)$", r"${\1}", text.strip())


def read_module(module: Source, draft: Draft) -> None:
    """Read what is left of `litellm_settings`."""
    _read_cache(module, draft)
    _note_callbacks(module)
    module.skip(*NEEDLESS)
    module.note_rest(_MODULE_REASONS)


def _read_cache(module: Source, draft: Draft) -> None:
    is_on, params = module.take("cache"), module.take_table("cache_params")
    if is_on is not True:
        params.take_all()
        return
    kind = params.take_text("type") or "local"
    cache: Row = {"apply": "always"}
    if kind == "local":
        cache["url"] = "memory:"
    elif kind.startswith("redis"):
        cache["url"] = _read_redis(params)
    else:
        params.note("type", f"{kind!r} has no counterpart: cache.url may be a file, Redis or memory")
    ttl = params.take_number("ttl")
    if ttl:
        cache["ttl_seconds"] = ttl
    params.skip("supported_call_types", "namespace", "mode")
    params.note_rest({})
    draft.others["cache"] = cache


def _read_redis(params: Source) -> str:
    url = read_variable(params.take_text("url") or params.take_text("redis_url"))
    host = read_variable(params.take_text("host")) or "${REDIS_HOST}"
    port = read_variable(params.take_text("port")) or "6379"
    password = read_variable(params.take_text("password"))
    if url:
        return url
    login = f":{password if password.startswith('${') else quote(password, safe='')}@" if password else ""
    scheme = "rediss" if params.take("ssl") is True else "redis"
    return f"{scheme}://{login}{host}:{port}/0"


def _note_callbacks(module: Source) -> None:
    for key in ("callbacks", "success_callback", "failure_callback", "service_callback", "service_callbacks"):
        value = module.take(key)
        for name in value if isinstance(value, list) else [value] if value else []:
            module.note(key, f"{str(name)[:60]!r}: {_CALLBACKS.get(str(name), 'there are no callbacks')}")


def read_general(general: Source, draft: Draft) -> None:
    key = read_variable(general.take_text("master_key"))
    if key.startswith("${"):
        draft.others["keys"] = {"master": {"admin": True}}
        general.note("master_key", f'set PARLEY_API_KEYS="master:{key}", which is then an administrator\'s key')
    elif key:
        sha256 = hashlib.sha256(key.encode()).hexdigest()
        draft.others["keys"] = {"master": {"sha256": sha256, "admin": True}}
    general.skip("completion_model", "database_connection_pool_limit", *NEEDLESS)
    general.note_rest(REASONS)


def note_variables(variables: Source) -> None:
    for name in variables.take_all():
        variables.note(name, "set it in the environment of the gateway")


def add_tool_servers(servers: Source, draft: Draft) -> None:
    for name in servers.names():
        _add_tool_server(name, servers.take_table(name), draft)


def _add_tool_server(name: str, source: Source, draft: Draft) -> None:
    transport, url, command = (source.take_text(key) for key in ("transport", "url", "command"))
    own = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:32]
    if transport == "sse" or not (url or command):
        source.note("transport", "a server needs a command, or a url that speaks streamable HTTP")
        return
    row: Row = (
        {"url": read_variable(url)} if url else {"command": command, "args": [str(x) for x in source.take_list("args")]}
    )
    environment = {key: read_variable(str(value)) for key, value in source.take_table("env").take_all().items()}
    if environment and command:
        row["env"] = environment
    headers = _read_tool_headers(source)
    if headers is None:
        return
    if headers and url:
        row["http_headers"] = headers
    for key, setting in (("allowed_tools", "enabled_tools"), ("disallowed_tools", "disabled_tools")):
        tools = [str(tool) for tool in source.take_list(key)]
        if tools:
            row[setting] = tools
    source.skip("description", "spec_version")
    source.note_rest({})
    draft.others.setdefault("mcp_servers", {})[own] = row


def _read_tool_headers(source: Source) -> dict[str, str] | None:
    """Return what a server of tools is sent, by its `auth_type`. None: the server is not taken, which is noted."""
    kind = source.take_text("auth_type") or "bearer_token"
    token = read_variable(source.take_text("authentication_token") or source.take_text("auth_value"))
    if kind not in (*_TOOL_HEADERS, "basic", "none"):
        source.note("auth_type", f"{kind[:60]!r} has no counterpart: the server was not taken")
        return None
    headers: dict[str, str] = {}
    if token and kind in _TOOL_HEADERS:
        header, before = _TOOL_HEADERS[kind]
        headers[header] = before + token
    elif token.startswith("${") and kind == "basic":
        source.note("auth_value", "set the variable to the header's value, `Basic ` and name:password in base64")
        headers["Authorization"] = token
    elif token and kind == "basic":
        headers["Authorization"] = f"Basic {base64.b64encode(token.encode()).decode()}"
    for key, value in source.take_table("static_headers").take_all().items():
        headers[key] = read_variable(str(value))
    return headers
