"""The guides on files and tools: their requests, sent over real sockets, get the replies that the guides show."""

import base64
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from app.config.settings import Settings
from app.profiles import Profile

from tests.uvicorn_gateway import serving

DOCS = Path(__file__).parents[2] / "docs"
STEPS = (DOCS / "reference/preprocessing.md").read_text("utf-8")
PAGE = "".join((DOCS / "guides" / name).read_text("utf-8") for name in ("files.md", "tools.md"))
WRITTEN = re.findall(r"^cat >(\S+) <<'END'\n(.*?)^END\n", PAGE, re.DOTALL | re.MULTILINE)
FILES = dict(WRITTEN)
SHELL = {
    "'\"$(cat functions.json)\"'": FILES["functions.json"],
    "'\"$(base64 <word.pdf | tr -d '\\n')\"'": base64.b64encode(FILES["word.pdf"].encode()).decode(),
}
"""What the shell puts in the place of a substitution."""
SHOWN = [json.loads(line.strip().rstrip(",]")) for line in re.findall(r'^ \{"role":"assistant".*$', PAGE, re.MULTILINE)]


def questions() -> list[Any]:
    found: list[Any] = []
    for body in re.findall(r"-d '(\{.*?\})'\n", PAGE, re.DOTALL):
        for substitution, text in SHELL.items():
            body = body.replace(substitution, text)
        found.append(json.loads(body))
    return found


def settings(demo_url: str = "") -> Settings:
    tree = tomllib.loads(FILES["text.toml"])
    assert tree["upstreams"]["box"]["base_url"] == "http://127.0.0.1:8001/v1"
    tree["upstreams"]["box"]["base_url"] = (demo_url or "http://127.0.0.1:8001") + "/v1"
    return Settings.model_validate(tree)


@cache
def replies() -> list[Any]:
    return anyio.run(_asked, questions())


async def _asked(bodies: list[Any]) -> list[Any]:
    async with serving(Settings(demo=True)) as demo:
        async with serving(settings(str(demo.base_url).rstrip("/"))) as client:
            return [(await client.post("/v1/chat", json=body, timeout=30)).json() for body in bodies]


def test_the_configuration_is_of_a_model_that_only_reads_text() -> None:
    profile = settings().profile("plain", "box")
    assert (profile.native_tools, profile.fncall_prompt_type, profile.media) == (False, "nous", ())
    assert profile.max_input_tokens == 30000


def test_every_reply_is_the_one_that_the_page_shows() -> None:
    pdf, *tools = ([_without_id(message) for message in reply["messages"]] for reply in replies())
    assert "demonstration model" in pdf.pop(0)["reasoning_content"]
    assert [*pdf, *(message for reply in tools for message in reply)] == list(map(_without_id, SHOWN))


def test_every_reply_ends_as_the_page_shows() -> None:
    ends = re.findall(
        r'^ "finish_reason":"(\w+)","usage":\{"prompt_tokens":(\d+),"completion_tokens":(\d+)', PAGE, re.M
    )
    assert [(reply["finish_reason"], *_counts(reply["usage"])) for reply in replies()] == ends
    assert [reply["warnings"] for reply in replies()] == [[]] * len(ends)


def _counts(usage: Any) -> tuple[str, str]:
    return str(usage["prompt_tokens"]), str(usage["completion_tokens"])


def _without_id(message: Any) -> Any:
    return {key: value for key, value in message.items() if key != "extra"}


def test_every_field_that_the_tables_name_is_one() -> None:
    rows = [line for line in STEPS.splitlines() if line.startswith("|")]
    named = {
        name for row in rows for cell in re.findall(r"profile ((?:`\w+`(?:, | and )?)+)", row) for name in _names(cell)
    }
    assert named
    assert named <= set(Profile.model_fields)


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)
