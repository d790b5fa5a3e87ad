"""The settings and the document that lists them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app.config.load import load
from app.config.settings import Settings
from app.config.tables.agents import AgentSettings
from app.config.tables.attachments import Documents, Fetch
from app.config.tables.callers import JwtIssuer, Key, Team
from app.config.tables.guards import Guard, MaskingSettings
from app.config.tables.limits import GatewayLimits
from app.config.tables.models import Model
from app.config.tables.prices import PricesSettings
from app.config.tables.server import MetricsSettings, Server, Tracing
from app.config.tables.storage import CacheSettings, ReasoningSettings, ResponsesSettings, StateSettings, UsageSettings
from app.config.tables.tools import McpServer, ToolsSettings
from app.config.tables.upstreams import Upstream
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.config.written_settings import written

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load({}).server.port = 1


SECTIONS: dict[str, type[BaseModel]] = {
    "": Settings,
    "server.": Server,
    "cache.": CacheSettings,
    "prices.": PricesSettings,
    "state.": StateSettings,
    "usage.": UsageSettings,
    "responses.": ResponsesSettings,
    "reasoning.": ReasoningSettings,
    "fetch.": Fetch,
    "documents.": Documents,
    "limits.": GatewayLimits,
    "metrics.": MetricsSettings,
    "tracing.": Tracing,
    "keys.<name>.": Key,
    "teams.<name>.": Team,
    "jwt.<name>.": JwtIssuer,
    "upstreams.<name>.": Upstream,
    "models.<name>.": Model,
    "mcp_servers.<name>.": McpServer,
    "guards.<name>.": Guard,
    "masking.": MaskingSettings,
    "tools.": ToolsSettings,
    "agents.": AgentSettings,
}
TABLES = {
    "server",
    "state",
    "prices",
    "fetch",
    "documents",
    "metrics",
    "tracing",
    "upstreams",
    "models",
    "keys",
    "teams",
    "jwt",
    "limits",
    "cache",
    "usage",
    "responses",
    "reasoning",
    "mcp_servers",
    "guards",
    "masking",
    "tools",
    "agents",
}


def fields() -> Iterator[tuple[str, FieldInfo]]:
    for prefix, section in SECTIONS.items():
        yield from (
            (prefix + name, info) for name, info in section.model_fields.items() if prefix or name not in TABLES
        )


def rows() -> dict[str, list[str]]:
    found = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.*?) ?\| (.+?) \| (.*?) ?\|$", DOCUMENT, re.MULTILINE)
    return {name: rest for name, *rest in found}


def shown(info: FieldInfo) -> str:
    """The default as the document writes it."""
    if info.is_required():
        return "required"
    default: Any = info.get_default(call_default_factory=True)
    if default is None:
        return ""
    if isinstance(default, BaseModel):
        return "`{}`"
    if isinstance(default, tuple):
        return f"`{json.dumps(default)}`"
    return f"`{default}`".replace("False", "false").replace("True", "true")


def test_the_document_lists_every_setting_with_its_default() -> None:
    assert {name: default for name, (_, default, *_) in rows().items()} == {
        name: shown(info) for name, info in fields()
    }


def test_the_document_names_the_variable_of_every_setting_that_is_one_value() -> None:
    for name, (_, _, _, variable) in rows().items():
        if variable:
            plain = "PARLEY_" + name.upper().replace(".", "__")
            assert variable.startswith(f"`{plain}") and re.fullmatch(r"(__<\w+>)?", variable[1 + len(plain) : -1])
        else:
            assert name in (
                "fetch.allow",
                "upstreams.<name>.headers",
                "models.<name>.upstreams",
                "models.<name>.aliases",
                "models.<name>.rules",
                "models.<name>.tools",
                "guards.<name>.params",
                "guards.<name>.headers",
                "masking.patterns",
                "mcp_servers.<name>.args",
                "mcp_servers.<name>.env",
                "mcp_servers.<name>.http_headers",
                "mcp_servers.<name>.env_http_headers",
            )


def test_the_documents_example_is_sound() -> None:
    example = re.search(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert example
    settings = written(example.group(1), DASHSCOPE_API_KEY="k")
    assert set(settings.models) == {"qwen3", "qwen-max"}
    assert settings.profile("qwen3", "box").inline_think == "auto_close"
