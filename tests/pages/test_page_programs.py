"""Programs and data that the pages show: each Python program runs against a gateway, here or in `make interop`."""

import ast
import functools
import json
import re
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.to_thread
import yaml
from app.config.settings import Settings
from interop.page_programs import PAGES, PageProgram, read_programs

from tests.each_case import each_case
from tests.uvicorn_gateway import serving

ROOT = Path(__file__).parents[2]
PROGRAMS = read_programs()
NOT_RUN = {
    "docs/guides/from-agentscope.md, program 3": "a line with AgentScope's agents, as it was before the move",
    "docs/guides/from-autogen.md, program 3": "a line with AutoGen's agents, as it was before the move",
    "docs/guides/from-litellm.md, program 1": "asks vLLM, as it was before the move",
    "docs/guides/from-portkey.md, program 1": "asks Portkey, as it was before the move",
    "docs/guides/from-qwen-agent.md, program 3": "a loop with Qwen-Agent's models, as it was before the move",
}
"""The programs that nothing runs: parts that use names of a program that the page does not show."""
KINDS = {
    "sh": "test_snippets.py runs it, or names the reason why not",
    "py": "this file",
    "json": "this file",
    "yaml": "this file",
    "toml": "test_configuration.py",
    'toml title="~/.codex/config.toml"': "interop/node/codex.mjs writes the same keys",
    'json title="opencode.json"': "interop/node/opencode.mjs writes the same keys",
    'json title="~/.pi/agent/models.json"': "interop/node/pi.mjs writes the same keys",
    'yaml title="~/.continue/config.yaml"': "interop/node/continue.mjs writes the same keys",
    "mermaid": "test_site.py: each has its picture",
    "text": "frames and headers: test_formats.py writes those of the formats",
    "": "what the commands above it print",
}
"""The kinds of blocks, and what tries them. A program in another language needs a test that runs it."""


def blocks(kind: str) -> list[tuple[str, str]]:
    """Each block of the kind with its page."""
    pattern = re.compile(rf"^```{re.escape(kind)}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    return [(page.name, text) for page in PAGES for text in pattern.findall(page.read_text("utf-8"))]


def is_installed(program: PageProgram) -> bool:
    return all(find_spec(package) is not None for package in program.packages)


def test_every_kind_of_block_is_tried() -> None:
    shown = {
        kind
        for page in PAGES
        for kind in re.findall(r"^```(.*)\n(?:.*\n)*?```$", page.read_text("utf-8"), re.MULTILINE)
    }
    assert shown == set(KINDS)


def test_every_program_whose_packages_are_installed_runs() -> None:
    runnable = [program for program in PROGRAMS if is_installed(program) and not program.undefined_names]
    assert any("httpx" in program.packages for program in runnable)
    anyio.run(_run_all, runnable)


async def _run_all(programs: list[PageProgram]) -> None:
    async with serving(Settings(demo=True)) as client:
        for program in programs:
            run = functools.partial(program.run, str(client.base_url).rstrip("/"))
            printed = await anyio.to_thread.run_sync(run)
            assert bool(printed) == ("print(" in program.text), program.title


def test_only_parts_of_programs_are_not_run_and_each_has_its_reason() -> None:
    assert {program.title for program in PROGRAMS if program.undefined_names} == set(NOT_RUN)


@each_case("program", [one for one in PROGRAMS if not (is_installed(one) or one.undefined_names)])
def test_a_program_whose_packages_are_not_installed_is_run_by_interop(program: PageProgram) -> None:
    clients = [file.read_text("utf-8") for file in (ROOT / "interop/clients").glob("*.py")]
    run = {package for text in clients for package in re.findall(r'^check_pages\("(\w+)"\)$', text, re.MULTILINE)}
    assert program.packages & run


@each_case(("page", "text"), blocks("json"))
def test_json_of_a_page_is_json(page: str, text: str) -> None:
    json.loads(text)


@each_case(("page", "text"), blocks("yaml"))
def test_yaml_of_a_page_is_yaml(page: str, text: str) -> None:
    assert yaml.safe_load(text)


CLIENT_LINES = [
    line
    for cells in re.findall(r"^\| .* \| (.*) \|$", (ROOT / "docs/start/clients.md").read_text("utf-8"), re.MULTILINE)
    for line in re.findall(r"`([^`]+\(.*?)`", cells)
]
"""The calls in the tables of clients, in Python and in JavaScript."""
JAVASCRIPT = re.compile(r"new |\w+\(\{|\w+\(true\)")


def find_calls(program: str) -> list[tuple[str, set[str]]]:
    """The name of each function that is called, and the keywords that it is given."""
    calls = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    return [(ast.unparse(call.func).rpartition(".")[2], {str(one.arg) for one in call.keywords}) for call in calls]


def test_the_lines_for_python_clients_are_in_programs_that_interop_runs() -> None:
    texts = [file.read_text("utf-8") for file in (ROOT / "interop/clients").glob("*.py")]
    made = [call for text in (*texts, *(program.text for program in PROGRAMS)) for call in find_calls(text)]
    shown = [line.replace(", …)", ")") for line in CLIENT_LINES if not JAVASCRIPT.match(line)]
    assert len(shown) > 20
    for line in shown:
        for function, keywords in find_calls(line):
            assert any(function == name and keywords <= given for name, given in made), line


def test_the_lines_for_javascript_clients_are_in_programs_that_interop_runs() -> None:
    programs = [set(re.findall(r"\w+", file.read_text("utf-8"))) for file in (ROOT / "interop/node").glob("*.mjs")]
    shown = [line for line in CLIENT_LINES if JAVASCRIPT.match(line)]
    assert len(shown) >= 6
    for line in shown:
        words = set(re.findall(r"\w+(?=\(|:\s)", line))
        assert any(words <= program for program in programs), (line, words)


def test_the_configuration_of_codex_has_the_keys_that_interop_tries() -> None:
    ((_, text),) = blocks('toml title="~/.codex/config.toml"')
    program = (ROOT / "interop/node/codex.mjs").read_text("utf-8").replace("\\n", "\n")
    for key in re.findall(r"^(\w+) = ", text, re.MULTILINE):
        assert re.search(rf"\b{key}\b", program), key


def test_the_configuration_of_llm_is_the_one_that_interop_tries() -> None:
    (text,) = (text for page, text in blocks("yaml") if page == "clients.md" and "model_id" in text)
    tried = (ROOT / "interop/clients/llm_sdk.py").read_text("utf-8")
    for line in text.replace("model_id: parley", "model_id: demo").splitlines():
        assert line.replace("http://127.0.0.1:8000/v1", "{V1}") in tried, line
