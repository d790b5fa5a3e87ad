"""Settings that are valid each, but not together or not on this machine."""

import shutil
from collections.abc import Iterator, Mapping, Sequence

from app.access.addresses import is_loopback
from app.config.codex_instructions import read_codex_instructions
from app.config.credentials import list_credential_sources
from app.config.extras import how_to_install, is_installed
from app.config.references import find_dangling
from app.config.settings import Settings
from app.config.sources import MIN_KEY_LENGTH
from app.config.tables.guards import find_guard_mistakes
from app.config.tables.server import Server
from app.config.unpriced import check_prices
from app.redis.urls import RedisUrl, parse_cache_url
from app.state.urls import NoUrl, PostgresUrl, parse_state_url
from app.upstream.http.options import make_ssl_context
from app.validation.nearest import suggest_name
from app.validation.violations import json_path
from app.validation.wildcards import match_wildcard


def find_mistakes(settings: Settings) -> list[str]:
    """Return the mistakes in settings that were not loaded together: some of their values are older than others."""
    mistakes = [*find_dangling(settings.model_dump()), *find_conflicts(settings)]
    if not (settings.models or settings.passthrough or settings.demo):
        mistakes.append("models: there is none, and the model demo is not served")
    return mistakes


def find_conflicts(settings: Settings) -> Iterator[str]:
    """Find settings that are valid each, but not together or not on this machine."""
    yield from _check_request_memory(settings.server)
    yield from _check_keys(settings)
    yield from _check_issuers(settings)
    yield from _check_users(settings)
    yield from _check_metrics_port(settings)
    yield from _check_tracing(settings)
    yield from _check_certificates(settings)
    yield from check_prices(settings)
    yield from _check_tool_servers(settings)
    yield from _check_hosted_tools(settings)
    yield from _check_codex_instructions(settings)
    yield from _check_guards(settings)
    yield from _check_request_log(settings)


def _check_request_log(settings: Settings) -> Iterator[str]:
    url = settings.request_log.url
    for name, other in (("state.url", settings.state.url), ("usage.url", settings.usage.url)):
        if url is not None and url == other:
            yield f"request_log.url: is also {name}; the request log needs a file of its own"


def _check_codex_instructions(settings: Settings) -> Iterator[str]:
    try:
        read_codex_instructions(settings.agents)
    except ValueError as error:
        yield f"agents.codex_instructions: {error}"


def _check_guards(settings: Settings) -> Iterator[str]:
    yield from find_guard_mistakes(settings.guards, settings.masking)
    yield from (f"masking.rules_file: {mistake}" for mistake in settings.masking.secret_rules[1])
    for name, guard in settings.guards.items():
        yield from _check_guarded_models(json_path(["guards", name, "models"]), guard.models, settings)
    shared = settings.server.workers > 1 or settings.server.replicas > 1
    masks = any(row.detectors or row.api == "presidio" for row in settings.guards.values())
    if not masks or settings.masking.key is not None:
        return
    if shared:
        yield (
            "masking.key: must be set, because there are several workers or gateways, which must have the same: "
            "`openssl rand -hex 32` makes one"
        )
    elif _keeps_state_in_redis(settings):
        yield (
            "masking.key: must be set, because it would be kept in Redis, which may evict it, beside the values that "
            "are encrypted with it: `openssl rand -hex 32` makes one. Or set state.url"
        )


def _check_guarded_models(path: str, patterns: Sequence[str], settings: Settings) -> Iterator[str]:
    """Find patterns that fit other names than those of the models that answer: their guard would look at nothing."""
    answering = [name for name, row in settings.models.items() if row.use is None]
    for pattern in patterns:
        if any(match_wildcard(pattern, name) for name in answering):
            continue
        for name, row in settings.models.items():
            targets = [name] if row.use is None else [row.use, *(rule.use for rule in row.rules)]
            other = next((one for one in (name, *row.aliases) if match_wildcard(pattern, one)), None)
            if other is not None:
                models = ", ".join(map(repr, dict.fromkeys(targets)))
                what = "virtual" if other == name else "an alias"
                yield f"{path}: {other!r} is {what}, and a guard goes by the name of the model that answers: {models}"
                break


def _keeps_state_in_redis(settings: Settings) -> bool:
    if settings.state.url is not None or isinstance(parse_state_url(settings.usage.url or "null:"), PostgresUrl):
        return False
    return isinstance(parse_cache_url(settings.cache.url or "memory:"), RedisUrl)


def _check_request_memory(server: Server) -> Iterator[str]:
    least = 2 * server.max_body_bytes
    if server.max_request_memory_bytes < least:
        yield (
            f"server.max_request_memory_bytes: must be at least twice server.max_body_bytes, so at least {least}, not "
            f"{server.max_request_memory_bytes}"
        )


def _check_keys(settings: Settings) -> Iterator[str]:
    """Find keys that are equal, and a gateway that everyone in the network could use."""
    names: dict[str, str] = {}
    for name, key in settings.keys.items():
        if names.setdefault(key.sha256, name) != name:
            yield f"{json_path(['keys', name, 'sha256'])}: the key {names[key.sha256]!r} has the same; use another key"
        yield from _check_team(json_path(["keys", name, "team"]), key.team, settings)
    server = settings.server
    if server.admin_key is not None and len(server.admin_key.get_secret_value()) < MIN_KEY_LENGTH:
        yield (
            f"server.admin_key: the key is too short to be safe: use at least {MIN_KEY_LENGTH} characters, such as "
            "those of `openssl rand -hex 32`"
        )
    if not (settings.requires_keys or server.allow_anonymous or is_loopback(server.host.strip("[]").lower())):
        yield (
            f"server.host: {server.host!r} is not a loopback address, so other machines can reach the gateway, and "
            "there are no API keys. Either create a key with `parley keys new NAME` and add the lines that it prints "
            "to parley.toml (or set PARLEY_API_KEYS), or set server.admin_key and "
            "create keys with POST /v1/keys, or serve everyone who can reach this address with "
            "server.allow_anonymous = true (PARLEY_SERVER__ALLOW_ANONYMOUS=true)"
        )


def _check_users(settings: Settings) -> Iterator[str]:
    if settings.state.url is not None and isinstance(parse_state_url(settings.state.url), NoUrl):
        for table, rows in (("keys", settings.keys), ("jwt", settings.jwt)):
            for name, row in rows.items():
                if row.hash_users:
                    path = json_path([table, name, "hash_users"])
                    yield f"{path}: needs a state database, which has the key of the hash, and state.url is null:"


def check_key_commands(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Find commands that print a key and cannot be run."""
    for name, source in list_credential_sources(settings, environ).items():
        path = json_path(["upstreams", name, "api_key_command", 0])
        if source.command and shutil.which(source.command[0], path=dict(source.environ).get("PATH")) is None:
            yield f"{path}: there is no program {source.command[0]!r} in PATH that can be run"


def _check_issuers(settings: Settings) -> Iterator[str]:
    """Find issuers of JWTs that are the same, and what they name that is not there."""
    names: dict[str, str] = {}
    for name, row in settings.jwt.items():
        path = json_path(["jwt", name])
        if names.setdefault(row.issuer, name) != name:
            yield f"{path}.issuer: {names[row.issuer]!r} has the same; list all audiences in one of them"
        yield from _check_team(f"{path}.team", row.team, settings)
        if row.team_claim is not None and not settings.teams:
            yield f"{path}.team_claim: there are no teams, so every token would be refused; add [teams.<name>]"
        if row.jwks_file is not None:
            from app.access.jwks import JwksError, read_jwks_file  # the package jwt takes time to import

            try:
                read_jwks_file(row.jwks_file)
            except JwksError as error:
                yield f"{path}.jwks_file: {error}"


def _check_team(path: str, team: str | None, settings: Settings) -> Iterator[str]:
    if team is not None and team not in settings.teams:
        yield f"{path}: there is no team {team!r}{suggest_name(team, settings.teams)}; add [teams.{team}]"


def _check_metrics_port(settings: Settings) -> Iterator[str]:
    port = settings.metrics.port
    if settings.metrics.enabled and port and port == settings.server.port:
        yield f"metrics.port: {port} is server.port too; use another port, or leave it out to serve /metrics on it"


def _check_tracing(settings: Settings) -> Iterator[str]:
    if settings.tracing.enabled and not is_installed("opentelemetry.exporter.otlp.proto.http"):
        yield f"tracing.enabled: traces need OpenTelemetry, which is not installed: {how_to_install('otel')}"


def _check_certificates(settings: Settings) -> Iterator[str]:
    options = {json_path(["upstreams", name]): row.connections for name, row in settings.upstreams.items()}
    options |= {json_path(["jwt", name]): row.connections for name, row in settings.jwt.items()}
    options |= {json_path(["alerts", name]): row.connections for name, row in settings.alerts.items()}
    for path, row in options.items():
        if row.client_key and not row.client_certificate:
            yield f"{path}.client_key: is the key of client_certificate, which is not set"
        elif row.ca_file or row.client_certificate:
            try:
                make_ssl_context(row)
            except OSError as error:
                reason = error.strerror or getattr(error, "reason", None) or str(error)
                files = [file for file in (row.ca_file, row.client_certificate, row.client_key) if file]
                yield f"{path}: the certificates in {', '.join(files)} cannot be used ({reason}); name PEM files"


def _check_tool_servers(settings: Settings) -> Iterator[str]:
    """Find names of servers that make a tool's name for the model ambiguous: `a-b-c` may be of `a` or of `a-b`."""
    names = sorted(settings.mcp_servers)
    for name in names:
        for other in names:
            if other.startswith(f"{name}-"):
                yield (
                    f"{json_path(['mcp_servers', other])}: there is a server {name!r} too, so the model's name of a "
                    f"tool, such as {other}-x, could be of both; choose a name that does not begin with {name}-"
                )
    for model, row in settings.models.items():
        used = [tools.mcp for tools in row.tools]
        for index, server in enumerate(used):
            path = json_path(["models", model, "tools", index])
            if server not in settings.mcp_servers:
                yield f"{path}: there is no MCP server {server!r}{suggest_name(server, settings.mcp_servers)}"
            elif server in used[:index]:
                yield f"{path}: {server!r} is listed twice"


def _check_hosted_tools(settings: Settings) -> Iterator[str]:
    """Find searches and fetches whose server is not configured, or does not offer the tool as they need it."""
    hosted = settings.hosted_tools
    for kind, row in (("web_search", hosted.web_search), ("web_fetch", hosted.web_fetch)):
        if row is None:
            continue
        path, server = f"hosted_tools.{kind}", settings.mcp_servers.get(row.mcp)
        if server is None:
            yield f"{path}.mcp: there is no MCP server {row.mcp!r}{suggest_name(row.mcp, settings.mcp_servers)}"
        elif row.tool in server.disabled_tools or row.tool not in (server.enabled_tools or (row.tool,)):
            yield f"{path}.tool: the MCP server {row.mcp!r} is configured without the tool {row.tool!r}"
        elif server.approval == "always" or (server.approval != "never" and row.tool in server.approval):
            yield (
                f"{path}.tool: calls of {row.tool!r} need approval at the MCP server {row.mcp!r}, and no API has words "
                "for the approval of such a call"
            )


def check_tool_variables(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Find tokens and headers of MCP servers that are in no environment variable."""
    for name, row in settings.mcp_servers.items():
        named = [("bearer_token_env_var", row.bearer_token_env_var)] if row.bearer_token_env_var else []
        named += [(f"env_http_headers.{header}", variable) for header, variable in row.env_http_headers.items()]
        for setting, variable in named:
            if row.enabled and not environ.get(variable or ""):
                path = json_path(["mcp_servers", name])
                yield f"{path}.{setting}: the environment variable {variable} is not set"
