"""The demo's server of tools, over standard input and output: a calculator, a clock and a file.

It is started for a gateway without a configuration, once a request names the server `example`. With the official SDK a
server of your own looks the same: a function for each tool, whose parameters and docstring the model sees.
"""

import ast
import operator
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

_MAX_EXPRESSION = 200
_MAX_DIGITS = 1000
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_NOTES = """Parley's notes for the demo:
- The gateway has run this tool itself, and has sent its result back to the model.
- [mcp_servers.NAME] in parley.toml names servers of your own.
"""

server = MCPServer("parley-demo-tools")
_READS_ONLY = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=_READS_ONLY, structured_output=False)
def calculator(expression: str) -> str:
    """Calculate an expression with numbers, + - * / // % and parentheses, such as "2 + 3 * 4"."""
    return f"{expression} = {calculate(expression)}"


@server.tool(annotations=_READS_ONLY, structured_output=False)
def clock(timezone: str = "UTC") -> str:
    """Return the date and time in a time zone, such as "Europe/Paris"."""
    try:
        return datetime.now(ZoneInfo(timezone)).isoformat(timespec="seconds")
    except (KeyError, ValueError, OSError):
        raise ToolError(f"there is no time zone {timezone!r}; use a name such as Europe/Paris") from None


@server.tool(annotations=_READS_ONLY, structured_output=False)
def read_notes() -> str:
    """Read the file notes.txt."""
    return _NOTES


def calculate(expression: str) -> int | float:
    """Calculate without running any code. Raises ToolError."""
    if len(expression) > _MAX_EXPRESSION:
        raise ToolError(f"the expression has more than {_MAX_EXPRESSION} characters")
    try:
        value = _evaluate(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolError(f"{expression!r} is not an expression with numbers, + - * / // % and parentheses") from None
    except ArithmeticError as error:
        raise ToolError(f"{expression!r} has no result: {error}") from None
    return value


def _evaluate(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _check(_OPERATORS[type(op)](_evaluate(operand)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _check(_OPERATORS[type(op)](_evaluate(left), _evaluate(right)))
    raise ValueError


def _check(value: int | float) -> int | float:
    if isinstance(value, int) and value.bit_length() > 4 * _MAX_DIGITS:
        raise OverflowError(f"it has more than {_MAX_DIGITS} digits")
    return value


if __name__ == "__main__":
    server.run()
