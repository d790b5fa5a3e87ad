"""What a hostile server of tools sends, how long its caller waits, and a quick call of another server meanwhile.

    python -m bench.hostile_tool_answers

A line has the seconds of the call, those of the slowest quick call beside it, and the beginning of its result. The
other server is never started again.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

from app.chat.messages import Text
from app.chat.server_tools import OfferedTool
from app.tools import ConfiguredServer, McpServers, ServerSpec
from app.tools.servers import McpSession

SECONDS = 8.0
MESSAGE_BYTES = 16 * 1024 * 1024
SERVER = r"""
import json, sys, threading
def write(data):
    sys.stdout.buffer.write(data + b"\n"); sys.stdout.buffer.flush()
def answer(message):
    method, params, head = message.get("method"), message.get("params") or {}, b'{"jsonrpc":"2.0","id":%b,'
    head %= json.dumps(message.get("id")).encode()
    if method == "initialize":
        info = b'"capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}'
        write(head + b'"result":{"protocolVersion":"2025-11-25",' + info + b'}}')
    elif method == "tools/list":
        write(head + b'"result":{"tools":[' + LISTED + b']}}')
    elif method == "tools/call":
        given = params.get("arguments") or {}
        token = json.dumps(params.get("_meta", {}).get("progressToken")).encode()
        before = given.get("before", "").encode().replace(b"TOKEN", token)
        for _ in range(given.get("count", 0)):
            write(before)
        write(head + eval(given.get("rest", "b'\"result\":{\"content\":[]}'"), {}) + b"}")
for line in sys.stdin.buffer:
    threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
"""
ECHO = """{"name":"echo","inputSchema":{"type":"object"}}"""


def result(content: str, more: str = "b''") -> dict[str, Any]:
    """A call whose result has this content, an expression that gives bytes."""
    return {"rest": f"""b'"result":{{"content":[' + {content} + b']' + {more} + b'}}'"""}


def structured(value: str) -> dict[str, Any]:
    return result("b''", f"""b',"structuredContent":{{"a":' + {value} + b'}}'""")


def list_answers() -> Iterator[tuple[str, dict[str, Any]]]:
    for code in ("1" * 30, "-" + "9" * 5000, "1e999", "NaN", "null", '"x"', "1.5", "true"):
        yield f"error code {code[:12]}", {"rest": f"""b'"error":{{"code":{code},"message":"m"}}'"""}
    yield "error message of 8 MB", {"rest": """b'"error":{"code":1,"message":"' + b'm' * 8000000 + b'"}'"""}
    data = """b'"error":{"code":1,"message":"m","data":[' + b'[],' * 1000000 + b'0]}'"""
    yield "error data of 1 M lists", {"rest": data}
    yield "result is a list", {"rest": """b'"result":[]'"""}
    yield "result and error", {"rest": """b'"result":{},"error":{"code":1,"message":"m"}'"""}
    text = """b'{"type":"text","text":"' + b'z' * %d + b'"},'"""
    for count, size in ((20_000, 600), (200_000, 10), (400_000, 0)):
        yield f"{count} texts of {size}", result(f"({text % size}) * {count} + b'0'")
    yield "400,000 unknown blocks", result("""b'{"type":"x"},' * 400000 + b'0'""")
    yield "200,000 empty images", result("""b'{"type":"image","data":"","mimeType":"a"},' * 200000 + b'0'""")
    yield "200,000 links", result("""b'{"type":"resource_link","uri":{"a":[1]},"name":[]},' * 200000 + b'0'""")
    yield "one text of 15 MB", result("""b'{"type":"text","text":"' + b'z' * 15000000 + b'"}'""")
    yield "one text of 40 MB", result("""b'{"type":"text","text":"' + b'z' * 40000000 + b'"}'""")
    yield "15 MB of escapes", result(r"""b'{"type":"text","text":"' + b'\\u0000' * 2500000 + b'"}'""")
    yield "half pairs", result(r"""b'{"type":"text","text":"' + b'\\ud800' * 1000000 + b'"}'""")
    yield "no UTF-8", result(r"""b'{"type":"text","text":"' + b'\xff' * 5000000 + b'"}'""")
    for one in ("[]", "{}", '{"a":1}', "1", "NaN"):
        yield f"7.5 MB of {one}", structured(f"b'[' + b'{one},' * {7_500_000 // (len(one) + 1)} + b'0]'")
    for depth in (190, 5000, 2_000_000):
        yield f"{depth} lists in each other", structured(f"b'[' * {depth} + b']' * {depth}")
    yield "300,000 names", structured("""b'{' + b','.join(b'"n%d":0' % n for n in range(300000)) + b'}'""")
    yield "an integer of 1 M digits", structured("b'1' * 1000000")
    yield "not JSON", {"rest": """b'"result":{"content":[' + b'[],' * 1000000"""}
    yield "input required", {"rest": """b'"result":{"resultType":"input_required"}'"""}


def list_floods() -> Iterator[tuple[str, dict[str, Any]]]:
    notice = '{"jsonrpc":"2.0","method":"%s","params":%s}'
    for method, params in (
        ("notifications/message", '{"level":"info","data":"%s"}' % ("x" * 1000)),
        ("notifications/progress", '{"progressToken":TOKEN,"progress":1e308,"message":"%s"}' % ("x" * 1000)),
        ("notifications/progress", '{"progressToken":TOKEN,"progress":NaN,"total":"x"}'),
        ("notifications/tools/list_changed", "{}"),
        ("notifications/cancelled", '{"requestId":TOKEN}'),
        ("notifications/resources/updated", '{"uri":"file:///etc/passwd"}'),
        ("notifications/elicitation/complete", '{"elicitationId":"x"}'),
    ):
        yield f"2,000 {method}", {"before": notice % (method, params), "count": 2000}
    asked = '{"jsonrpc":"2.0","id":%s,"method":"%s","params":{}}'
    for method in ("sampling/createMessage", "elicitation/create", "roots/list", "ping", "tools/call", "x"):
        yield f"1,000 requests {method}", {"before": asked % ("7", method), "count": 1000}
    yield "answers to no request", {"before": '{"jsonrpc":"2.0","id":99,"result":{}}', "count": 2000}
    yield "lines that are no messages", {"before": "[" * 1000, "count": 2000}
    yield "empty lines", {"before": "", "count": 10_000}


def list_tool_lists() -> Iterator[tuple[str, str]]:
    """What a server lists behind its tool `echo`: an expression that gives bytes."""
    row = """b',{"name":"%s","inputSchema":%s}'"""
    yield "NaN in a schema", row % ("t", '{"default":NaN}')
    yield "1e999 in a schema", row % ("t", '{"properties":{"a":{"maximum":1e999}}}')
    yield "a number of 5,000 digits in a schema", row % ("t", '{"default":' + "1" * 5000 + "}")
    yield "NaN in annotations", """b',{"name":"t","inputSchema":{},"annotations":{"x":NaN}}'"""
    yield "a description of 10 MB", """b',{"name":"t","inputSchema":{},"description":"' + b'x' * 10000000 + b'"}'"""
    yield "100,000 tools", """b''.join(b',{"name":"t%d","inputSchema":{}}' % n for n in range(100000))"""
    yield "100,000 rows that are no tools", "b',7' * 100000"
    wide = """b',{"name":"t","inputSchema":{"anyOf":[' + b'{"enum":[{}]},' * 6000 + b'{}]}}'"""
    yield "100 schemas of 90 KB", f"({wide}) * 100"
    yield "a schema in a loop", row % ("t", '{"$ref":"#","allOf":[{"$ref":"#"},{"$ref":"#"}]}')
    yield "odd names", row % ("\\\\u0000\\\\n<script>../", "{}")
    yield "a name of 1 MB", """b',{"name":"' + b'n' * 1000000 + b'","inputSchema":{}}'"""
    yield "a schema 190 deep", """b',{"name":"t","inputSchema":' + b'{"not":' * 190 + b'{}' + b'}' * 191"""


def configure(name: str, more: str = "b''") -> ConfiguredServer:
    code = f"LISTED = b'{ECHO}' + {more}\n{SERVER}"
    spec = ServerSpec(name, SECONDS, MESSAGE_BYTES, 128, sys.executable, ("-c", code))
    return ConfiguredServer(spec, SECONDS, 65536, 1024 * 1024, 16)


async def call(session: McpSession, server: str, arguments: dict[str, Any]) -> tuple[float, str]:
    tool = next(tool for listed in session.servers if listed.server == server for tool in listed.tools)
    return await _call(session, tool, arguments)


async def _call(session: McpSession, tool: OfferedTool, arguments: dict[str, Any]) -> tuple[float, str]:
    began = time.perf_counter()
    answer = await session.call(tool, arguments, None)
    text = next((part.text for part in answer.content if isinstance(part, Text)), "<media>")
    return time.perf_counter() - began, text


async def call_beside(session: McpSession, task: "asyncio.Task[Any]") -> float:
    """Return the time of the slowest quick call while a task runs."""
    slowest = 0.0
    while not task.done():
        slowest = max(slowest, (await call(session, "good", {}))[0])
        await asyncio.sleep(0.05)
    return slowest


def report(seconds: float, beside: float, name: str, text: str) -> None:
    print(f"{seconds:6.2f} {beside:6.2f}  {name:44} {text[:70]!r}", flush=True)


async def run() -> None:
    servers = McpServers()
    lists = {f"list{number}": case for number, case in enumerate(list_tool_lists())}
    floods = {f"flood{number}": case for number, case in enumerate(list_floods())}
    servers.configure(
        [
            configure("good"),
            configure("bad"),
            *map(configure, floods),
            *(configure(name, more) for name, (_, more) in lists.items()),
        ],
        {},
    )
    session = await servers.open_for_operator(["good", "bad", *floods])
    answers = [("bad", *case) for case in list_answers()]
    for server, name, arguments in [*answers, *((server, *case) for server, case in floods.items())]:
        task = asyncio.create_task(call(session, server, arguments))
        beside = await call_beside(session, task)
        report(task.result()[0], beside, name, task.result()[1])
    for server, (name, _) in lists.items():
        began = time.perf_counter()
        opening = asyncio.create_task(servers.open_for_operator([server]))
        beside = await call_beside(session, opening)
        listed = opening.result().servers[0]
        report(time.perf_counter() - began, beside, name, listed.error or f"{len(listed.tools)} tools")
        opening.result().close()
    print(f"the other server was started {servers.list_status()[0].starts} time")
    session.close()
    await servers.aclose()


if __name__ == "__main__":
    asyncio.run(run())
