"""Scripts of model servers whose replies are kept, and where they are kept."""

from pathlib import Path

from tests.live.gateway import chunk

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'


def call(arguments: str, index: int = 0) -> bytes:
    function = {"name": "f", "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]})


def url_of(kind: str, folder: Path) -> str:
    return f"sqlite:///{folder}/cache.db" if kind == "sqlite" else kind
