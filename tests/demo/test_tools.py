import pytest
from app.config.settings import Settings
from app.config.tool_servers import list_tool_servers
from app.demo.tools import calculate
from app.tools import open_configured
from mcp.server.mcpserver.exceptions import ToolError

from tests.each_case import each_case
from tests.tools.local_servers import call, text_of


@each_case(
    ("expression", "value"),
    [("2 + 3 * 4", 14), ("-(1 - 3) / 4", 0.5), ("7 // 2 + 7 % 4", 6), (" 1e3 ", 1000.0)],
)
def test_an_expression_is_calculated(expression: str, value: float) -> None:
    assert calculate(expression) == value


@each_case(
    ("expression", "reason"),
    [
        ("", "is not an expression"),
        ("2 ** 9", "is not an expression"),
        ("__import__('os')", "is not an expression"),
        ("True + 1", "is not an expression"),
        ("'a' * 9", "is not an expression"),
        ("1 / 0", "has no result"),
        ("(" * 150 + "1" + ")" * 150, "more than 200"),
        ("1+" * 150 + "1", "more than 200"),
        ("9" * 190 + "*" + "9", None),
    ],
)
def test_nothing_else_is_run(expression: str, reason: str | None) -> None:
    if reason is None:
        assert calculate(expression)
        return
    with pytest.raises(ToolError, match=reason):
        calculate(expression)


@pytest.mark.anyio
async def test_a_gateway_without_a_configuration_has_its_tools() -> None:
    from app.config.load import DEMO_TOOLS

    settings = Settings.model_validate({"demo": True, "mcp_servers": DEMO_TOOLS})
    async with open_configured(list_tool_servers(settings), ["example"]) as session:
        (listed,) = session.servers
        assert [tool.name for tool in listed.tools] == ["example-calculator", "example-clock", "example-read_notes"]
        assert all(tool.read_only for tool in listed.tools)
        assert text_of(await call(session, "calculator", {"expression": "6 * 7"})) == "6 * 7 = 42"
        assert "T" in text_of(await call(session, "clock"))
        failed = await call(session, "clock", {"timezone": "Mars"})
        assert failed.error is not None and "there is no time zone" in text_of(failed)
        assert "notes for the demo" in text_of(await call(session, "read_notes"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
