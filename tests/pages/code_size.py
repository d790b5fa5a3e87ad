"""Figures about the code: how large files and functions are, and which files one request passes through.

`python -m tests.pages.code_size [FOLDER]` prints both. The paths are traced over real sockets, with the cache in memory
and, where redis-server is installed, with Redis.
"""

import ast
import asyncio
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from tests.live.gateway import DONE, end, say
from tests.live.raw_client import calling
from tests.live.resuming_client import QUESTION, caching
from tests.redis_server import running_redis
from tests.scripted_server import Reply, ScriptedServer

ROOT = Path(__file__).parent.parent.parent
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def describe_size(folder: Path) -> str:
    """One line: files, lines, functions, the lines of their bodies without docstrings, and docstrings."""
    texts = [path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))]
    functions = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]
    lengths = sorted(map(body_lines, functions))
    lines = sum(len(text.splitlines()) for text in texts)
    documented = sum(ast.get_docstring(one) is not None for one in functions)
    return (
        f"{folder.name}: {len(texts)} files, {lines} lines, {lines / len(texts):.0f} a file, "
        f"{len(functions)} functions, median {statistics.median(lengths):g}, "
        f"p90 {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]}, "
        f"{100 * documented // len(functions)} % with docstring"
    )


def body_lines(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@contextmanager
def trace() -> Iterator[list[str]]:
    """The files of `app/` whose functions are called in this thread, in order."""
    files: list[str] = []
    folder = str(ROOT / "app")

    def on_call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            files.append(frame.f_code.co_filename)

    sys.setprofile(on_call)
    try:
        yield files
    finally:
        sys.setprofile(None)


def describe_path(name: str, files: list[str]) -> str:
    switches = sum(one != other for one, other in pairwise(files))
    return f"  {name}: {len(set(files))} files, {switches} switches between files, {len(files)} calls"


async def describe_paths(cache_url: str) -> list[str]:
    """One line each for a request up to the model server, one chunk, and a hit."""
    gate, last = asyncio.Event(), asyncio.Event()
    script = Reply([say("One"), gate, say(" two"), last, end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, cache_url) as gateway:
        async with calling(gateway.address) as caller:
            with trace() as request:
                await caller.ask(QUESTION)
                await upstream.request()
            await asyncio.sleep(0.3)
            with trace() as chunk:
                gate.set()
                await asyncio.sleep(0.02)
            last.set()
            await caller.head()
            await caller.rest()
        await asyncio.sleep(0.3)
        async with calling(gateway.address) as caller:
            with trace() as hit:
                await caller.reply(QUESTION)
    return [describe_path("request", request), describe_path("chunk", chunk), describe_path("hit", hit)]


def main() -> None:
    print(describe_size(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "app"))
    print("cache in memory", *asyncio.run(describe_paths("memory:")), sep="\n")
    if shutil.which("redis-server"):
        with running_redis() as server:
            print("cache in Redis", *asyncio.run(describe_paths(server.url)), sep="\n")


if __name__ == "__main__":
    main()
