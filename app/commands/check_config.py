"""`parley check-config`: report every mistake in a configuration."""

import argparse
import asyncio

from app.commands.configuration import check_tokenizers, describe_models, load_settings
from app.config.access import describe_foreign_fallbacks
from app.config.registry import list_served_models, targets
from app.config.settings import Settings
from app.config.warnings import find_suspect_upstreams, find_unused_fields
from app.upstream.check import UpstreamReport, check_all, check_upstream
from app.upstream.http.client import Target, UpstreamClient


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config or arguments.file)
    check_tokenizers(settings)
    print(f"the configuration is valid; models: {', '.join(describe_models(settings))}")
    for line in describe_foreign_fallbacks(settings):
        print(line)
    for warning in (*find_unused_fields(settings), *find_suspect_upstreams(settings)):
        print(warning)
    return _check_online(settings) if arguments.online else 0


def _check_online(settings: Settings) -> int:
    async def check(target: Target, client: UpstreamClient) -> UpstreamReport:
        return await check_upstream(target, [*list_served_models(settings, target.name).values()], client)

    servers = targets(settings).values()
    reports = asyncio.run(check_all(servers, check))
    for target, report in zip(servers, reports, strict=True):
        print(f"upstream {target.name} at {target.base_url}: {report.text}")
        for line in report.lines[1:]:
            print(f"  {line}")
    tools_work = asyncio.run(_check_tools(settings)) if settings.mcp_servers else True
    issuers_work = asyncio.run(_check_issuers(settings)) if settings.jwt else True
    return 0 if tools_work and issuers_work and all(report.works for report in reports) else 1


async def _check_tools(settings: Settings) -> bool:
    from app.config.tool_servers import list_tool_servers
    from app.tools import open_configured  # most configurations have none

    configured = list_tool_servers(settings)
    async with open_configured(configured, [server.spec.name for server in configured]) as session:
        for listed in session.servers:
            text = ", ".join(tool.tool for tool in listed.tools) or "it has no tools"
            print(f"MCP server {listed.server}: {listed.error or text}")
        return all(listed.error is None for listed in session.servers)


async def _check_issuers(settings: Settings) -> bool:
    from app.doctor.jwt_issuers import check_jwt_issuers  # most configurations have none

    found = await check_jwt_issuers(settings)
    for finding in found:
        print(f"{finding.subject}: {finding.message}")
    return all(finding.status != "problem" for finding in found)
