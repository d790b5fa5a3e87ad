"""The requests that the playground offers as curl, Python and JavaScript: run as they are copied, they send what the
page sends, and print the reply. Node runs the page's own module that writes them."""

import json
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from app.access import hash_key
from app.config.settings import Settings
from app.playground import files

from tests.clean_environment import clean_environment
from tests.scripted_server import Reply, ScriptedServer
from tests.uvicorn_gateway import serving

SITE = Path(files.__file__).parent / "site"
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC")
KEY = "pk-$HOME-`id`"
NASTY = (
    "It's \"quoted\", '\\'' and `backticks` $HOME ${HOME} $(id) \\n \\ \\\\ %s %d !! \ttab\nnew line\r\n\nEND\n"
    "@x '''\"\"\" {braces} </script> 你好 é 🎉 \u2028 \u0085 \x01 __proto__ #{x} //"
)
ANSWER = "21 °C ☀"
WRITE = """
import { readFileSync } from "node:fs";
import { CODE_LANGUAGES, writeRequest } from "./code.js";
import { FORMATS, writeUser } from "./formats/index.js";

const { url, conversations } = JSON.parse(readFileSync(0, "utf-8"));
const written = conversations.map(({ text, files, results, between, withKey, ...request }) => {
  const { format } = request;
  const messages = [writeUser(format, text, files).message, ...between, ...FORMATS[format].writeResults(results)];
  const body = { ...request, messages };
  const write = (language) => [language, writeRequest(language, url, body, withKey)];
  return { body, programs: Object.fromEntries(Object.keys(CODE_LANGUAGES).map(write)) };
});
process.stdout.write(JSON.stringify(written));
"""


def attach(media_type: str, data: bytes) -> dict[str, str]:
    return {"name": "it's.x", "mediaType": media_type, "url": f"data:{media_type};base64,{b64encode(data).decode()}"}


WEATHER = {
    "name": "get_weather",
    "description": "It's the \\weather\\ of a `city`\nfor $5",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "O'Fallon"]}},
        "required": [],
        "additionalProperties": False,
    },
}
CALL = {"name": "get_weather", "arguments": '{"city": "O\'Fallon \\u00e9 \\\\"}'}
PLAIN: dict[str, Any] = {"model": "m", "files": [], "between": [], "results": [], "withKey": False}
CONVERSATIONS = [
    PLAIN | {"format": "openai", "text": NASTY, "cancel_on_disconnect": False},
    PLAIN
    | {
        "format": "qwen",
        "text": NASTY,
        # Linux takes at most 128 KiB as one argument of a program.
        "files": [attach("image/png", PNG + bytes(300_000)), attach("application/pdf", b"%PDF-1.4\n%%EOF\n")],
        "between": [{"role": "assistant", "content": "", "function_call": CALL, "extra": {"function_id": "call'1"}}],
        "results": [{"id": "call'1", "name": "get_weather", "text": NASTY}],
        "functions": [WEATHER],
        "generate_cfg": {
            "enable_thinking": False,
            "temperature": 0.25,
            "max_tokens": 50,
            "seed": None,
            "stop": ["'", "\n"],
        },
        "withKey": True,
    },
]
STREAM = [
    b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}).encode() + b"\n\n"
    for delta, reason in (({"content": ANSWER + "\u2028!"}, None), ({}, "stop"))
]


@asynccontextmanager
async def run_gateway() -> AsyncIterator[tuple[str, ScriptedServer]]:
    """The URL of a gateway, and the model server behind it."""
    async with ScriptedServer(Reply([*STREAM, b"data: [DONE]\n\n"], chunked=True)) as upstream:
        settings = {
            "server": {"allow_anonymous": True},
            "keys": {"caller": {"sha256": hash_key(KEY)}},
            "upstreams": {"local": {"base_url": f"{upstream.url}/v1"}},
            "models": {"m": {"upstreams": ["local"]}},
        }
        async with serving(Settings.model_validate(settings)) as client:
            yield str(client.base_url.join("/v1/chat")), upstream


def write_programs(folder: Path, url: str) -> list[dict[str, Any]]:
    shutil.copy(SITE / "code.js", folder)
    shutil.copytree(SITE / "formats", folder / "formats")
    (folder / "package.json").write_text('{"type": "module"}', "utf-8")
    (folder / "write.js").write_text(WRITE, "utf-8")
    given = json.dumps({"url": url, "conversations": CONVERSATIONS})
    node = ["node", "write.js"]
    done = subprocess.run(node, cwd=folder, input=given, capture_output=True, text=True, encoding="utf-8", check=True)
    return list(json.loads(done.stdout))


async def run_program(language: str, program: str, folder: Path, key: str) -> tuple[int, str, str]:
    """The exit status of a program, and what it printed."""
    file = folder / f"request.{language}.mjs"
    file.write_text(program, "utf-8")
    command = {"curl": ["sh", str(file)], "python": [sys.executable, str(file)], "javascript": ["node", str(file)]}
    environ = clean_environment()
    environ |= {"NO_PROXY": "*", "no_proxy": "*", "PYTHONUTF8": "1"} | {"PARLEY_API_KEY": key}
    with anyio.fail_after(60):
        done = await anyio.run_process(command[language], env=environ, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_copied_program_sends_what_the_page_sends_and_prints_the_reply(tmp_path: Path) -> None:
    anyio.run(_run_all, tmp_path)


async def _run_all(folder: Path) -> None:
    async with run_gateway() as (url, upstream), httpx.AsyncClient(trust_env=False, timeout=60) as client:
        written = write_programs(folder, url)
        for conversation, row in zip(CONVERSATIONS, written, strict=True):
            headers = {"authorization": f"Bearer {KEY}"} if conversation["withKey"] else {}
            sent_by_page = await client.post(url, json=row["body"], headers=headers)
            assert sent_by_page.status_code == 200, sent_by_page.text
            wanted = json.loads(upstream.requests[-1].body)
            for language, program in row["programs"].items():
                asked = len(upstream.requests)
                status, output, errors = await run_program(language, program, folder, KEY)
                assert status == 0 and ANSWER in output, (language, output, errors)
                assert len(upstream.requests) == asked + 1
                assert json.loads(upstream.requests[-1].body) == wanted, language
        for language, program in written[1]["programs"].items():
            status, output, errors = await run_program(language, program, folder, "a-wrong-key")
            assert "invalid_api_key" in output + errors, (language, output, errors)
            assert (status == 0) == (language == "curl")  # curl prints the body of an error as any other
