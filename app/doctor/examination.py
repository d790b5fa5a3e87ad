"""Run all checks of a configuration, or of one server that is not configured yet."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from app.config.load import with_proxies
from app.config.registry import list_served_models, targets
from app.config.settings import Settings
from app.doctor.findings import Finding
from app.doctor.guards import check_guards
from app.doctor.jwt_issuers import check_jwt_issuers
from app.doctor.model_server import UNKNOWN_KIND, ModelServer, ProbedModel, check_server, find_server_apis, probe_model
from app.doctor.prices import check_prices
from app.doctor.stores import check_cache, check_state, check_usage
from app.doctor.tool_servers import check_tool_servers
from app.profiles import find_profile
from app.upstream.check import UpstreamReport, check_all
from app.upstream.http.client import UpstreamClient
from app.upstream.http.transport import UpstreamTransport


class Examination(Struct, frozen=True):
    """How to check."""

    seconds: float = 30.0
    """The limit of each check."""
    probe: bool = True
    """Send three short requests to each model."""
    model: str | None = None
    """Probe only this model, even if it is not configured."""
    progress: Callable[[str], None] = lambda _: None
    """Called with what is checked now."""
    transport: UpstreamTransport | None = None


async def examine_settings(settings: Settings, how: Examination) -> list[Finding]:
    """Check the upstreams, the issuers of JWTs, the guards, the cache and the state of a configuration."""
    findings = await _examine_upstreams(settings, how)
    if settings.mcp_servers:
        findings += await check_tool_servers(settings, how.progress)
    if settings.jwt:
        findings += await check_jwt_issuers(settings, how.progress, how.transport)
    if settings.guards:
        findings += await check_guards(settings, how.progress, how.transport)
    how.progress("the cache and the state database")
    findings += await check_cache(settings.cache.url, settings.cache.max_bytes, how.seconds)
    if settings.state.url is not None:
        findings += await check_state(settings.state.url, how.seconds)
    if settings.usage.url is None or settings.usage.url != settings.state.url:
        findings += await check_usage(settings.usage.url, how.seconds)
    findings += check_prices(settings)
    return findings


async def examine_server(base_url: str, api_key: str | None, how: Examination) -> list[Finding]:
    """Check a server that is not configured yet, and suggest the lines for it. Raises ValidationError for the URL."""
    row: dict[str, Any] = {"base_url": base_url} | ({"api_key": api_key} if api_key else {})
    settings = Settings.model_validate({"upstreams": {"server": row}, "passthrough": "server"})
    settings = with_proxies(settings, os.environ)
    findings = await _examine_upstreams(settings, how)
    if any(finding.status == "problem" and not finding.settings for finding in findings):
        return findings
    kind = next((line for finding in findings if finding.check == "kind" for line in finding.settings[1:]), None)
    lines = ["[upstreams.server]", f'base_url = "{settings.upstreams["server"].base_url}"']
    lines += [kind] if kind else []
    lines += next((finding.settings[1:] for finding in reversed(findings) if finding.check == "apis"), ())
    lines += ['api_key = "${PARLEY_UPSTREAM_API_KEY}"'] if api_key else []
    suggested = [finding for finding in findings if finding.check not in ("kind", "apis") or not finding.settings]
    text = "the server can be used; every model name passes through to it with these lines"
    passing = ("# at the top of the file:", 'passthrough = "server"', "", *lines)
    return [*suggested, Finding("parley.toml", "lines", "ok", text, "", passing)]


async def _examine_upstreams(settings: Settings, how: Examination) -> list[Finding]:
    """Check all upstreams at the same time, and return their findings in the order of the configuration."""
    found = await check_all(
        _list_servers(settings, how), lambda server, client: _examine_server(server, how, client), how.transport
    )
    return [finding for findings in found for finding in findings]


def _list_servers(settings: Settings, how: Examination) -> list[ModelServer]:
    servers: list[ModelServer] = []
    for name, target in targets(settings).items():
        deployments = [
            ProbedModel(model, served, settings.profile(model, name), name, True)
            for model, served in list_served_models(settings, name).items()
        ]
        kind, has_key = settings.upstreams[name].kind, settings.upstreams[name].has_key
        servers.append(ModelServer(target, kind, deployments, has_key, how.seconds))
    return servers


async def _examine_server(server: ModelServer, how: Examination, client: UpstreamClient) -> list[Finding]:
    how.progress(server.subject)
    findings, report = await check_server(server, client)
    if report is None or not report.works or not how.probe:
        return findings
    deployments, note = _choose_deployments(server, report, how.model)
    findings += [] if note is None else [note]
    if not deployments:
        return findings
    about_apis, apis = await find_server_apis(server, client)
    findings += about_apis
    if any(finding.status == "problem" for finding in about_apis):
        return findings
    for deployment in deployments:
        how.progress(f"model {deployment.model} of upstream {server.target.name}")
        findings += await probe_model(server, deployment, client, apis)
    return findings


def _choose_deployments(
    server: ModelServer, report: UpstreamReport, wanted: str | None
) -> tuple[Sequence[ProbedModel], Finding | None]:
    """Return the models to probe, and a note if none can be chosen.

    Configured models that the server does not list are left out. Of a server whose models are only passed through,
    the wanted model is probed, or the only one that it lists.
    """
    listed = [each for each in server.deployments if not report.models or each.name in report.models]
    if wanted is not None and any(wanted in (each.model, each.name) for each in listed):
        return [each for each in listed if wanted in (each.model, each.name)], None
    if server.deployments and wanted is None:
        return listed, None
    names = [wanted] if wanted is not None else list(report.models)
    if len(names) == 1 and (not server.deployments or wanted in report.models):
        kind = report.likely_kind if server.kind == UNKNOWN_KIND else server.kind
        return [
            ProbedModel(
                names[0], names[0], find_profile(kind or UNKNOWN_KIND, server.target.api), server.target.name, False
            )
        ], None
    if server.deployments:
        return (), None
    text = f"the server lists {len(names)} models" if names else "the server lists no models"
    advice = "name one with --model, to try how it calls functions and reasons"
    return (), Finding(server.subject, "probes", "warning", f"no model was tried: {text}", advice)
