"""Every metric of a gateway, with its type and its labels, from what `/metrics` shows after requests of all kinds."""

from app.chat.server_tools import ToolCallSummary
from app.chat.stream import Attempt
from app.chat.token_usage import TokenUsage
from app.config.settings import Settings
from app.main import create_app
from app.observe.request_record import RequestRecord

SETTINGS = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "cache": {"url": "redis://127.0.0.1:1"},
    "mcp_servers": {"wx": {"command": "wx"}},
    "jwt": {"corp": {"issuer": "https://idp.test", "audience": "parley"}},
}


async def list_metrics(**more: object) -> dict[str, tuple[str, list[str]]]:
    """Return the type and the labels of each metric, by its name. `more` are settings."""
    metrics = create_app(Settings.model_validate({**SETTINGS, **more})).state.context.metrics
    assert metrics is not None
    record = RequestRecord("r", "chat", model="demo", status=200, cache="miss")
    record.received_at = record.sent_at = record.first_token_at = record.started_at
    record.output = "valid"
    record.tokens, record.cost = TokenUsage(input=3, output=3), 0.5
    record.attempts = [Attempt("demo", "", 1.0, None, None)] * 2
    metrics.observe_request(record)
    metrics.observe_request(RequestRecord("f", "chat", model="demo", error="upstream_error"))
    metrics.observe_tool_call(ToolCallSummary("c", "wx", "now", "ok", 3, 5))
    metrics.count_tool_server_start("wx")
    metrics.count_request_bytes(1, 1)
    metrics.count_memory_failure("KeyError")
    metrics.count_check("house", "request", "pass")
    metrics.observe_check("house", "request", 0.1)
    metrics.count_masked("EMAIL", 1)
    metrics.count_placeholders("restored", 1)
    metrics.observe_plain_request("/healthz", 200, None)
    return {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            [name for name in (family.samples[0].labels if family.samples else ()) if name != "le"],
        )
        for family in metrics.collect()
    }
