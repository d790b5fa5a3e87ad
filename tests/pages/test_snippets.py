"""The shell commands of the pages: those that a gateway answers are run, in the order of the page."""

import re
import shlex
import shutil
from pathlib import Path

import anyio
import pytest
from app.access import hash_key
from app.config.load import DEMO_TOOLS
from app.config.settings import Settings
from interop.page_programs import PAGES

from tests.each_case import each_case
from tests.fork_server import forked_parley
from tests.uvicorn_gateway import serving

ROOT = Path(__file__).parents[2]
ADMIN_KEY = "key-of-an-administrator"

NOT_RUN = {
    r"(\w+=\S+ )*make \w+": "sets up, serves or tests: CI does it in a clone",
    r"\.venv/bin/python -m pytest ": "runs tests, as this one does",
    r"(\w+=\S+ )*(\.venv/bin/)?parley serve\b": "serves until it is stopped: the gateway of this test replaces it",
    r"TOKEN=\$\(curl ": "needs an identity provider",
    r"curl \S+ \S+/v1/embeddings ": "needs a model that serves embeddings: tests/api has one",
    r"docker |export PARLEY_API_KEYS=.*\ndocker ": "needs a container engine",
    r"PARLEY_API_KEYS=.*(\n|$)(PARLEY_|$)": "lines of an environment file",
    r"git clone ": "has a placeholder, the address of the repository",
    r"sudo |git tag ": "changes the system or a repository",
    r'eval "\$\(parley completion': "lines for the start files of shells: tests/terminal presses Tab in each shell",
    r"kill -HUP <process>": "has a placeholder: tests/live reloads a gateway with the signal",
    r"export PARLEY_TRACING__ENABLED": "needs a collector: tests/observe sends traces to one",
    r"export (ANTHROPIC|OPENAI)_BASE_URL|PARLEY_KEY=any codex|pi |cline |cn ": "coding agents: make interop runs them",
    r"llm |aider |openapi-python-client": "client programs: make interop runs them",
    r"vllm |llama-server |python -m (sglang|llama_cpp)|pip install .transformers": "a model server",
}
"""The commands at the beginning of blocks that are not run here, and the reason."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def is_run(block: str) -> bool:
    commands = re.sub(r"^cat >\S+ <<'END'\n.*?^END\n", "", block, flags=re.DOTALL | re.MULTILINE)
    return not any(re.match(command, commands) for command in NOT_RUN)


RUN_ELSEWHERE = {ROOT / "docs/guides/terminal.md"}
"""tests/pages/test_terminal_guide.py runs them, and compares what they print."""
RUN = {
    page: run
    for page in PAGES
    if page not in RUN_ELSEWHERE and (run := [block for block in blocks(page, "sh") if is_run(block)])
}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_succeed(page: Path, tmp_path: Path) -> None:
    anyio.run(_run_blocks, RUN[page], tmp_path)


async def _run_blocks(run: list[str], folder: Path) -> None:
    usage = f"sqlite:///{folder}/usage.db"
    admin = {
        "keys": {"admin": {"sha256": hash_key(ADMIN_KEY), "admin": True}},
        "usage": {"url": usage},
        "state": {"url": f"sqlite:///{folder}/state.db"},
        "request_log": {"keep": "all", "url": f"sqlite:///{folder}/requests.db"},
    }
    async with (
        serving(Settings.model_validate({"demo": True, "mcp_servers": DEMO_TOOLS})) as without_keys,
        serving(Settings.model_validate({"demo": True, **admin})) as with_keys,
    ):
        script = [
            f"set -eu; git init -q; export PARLEY_URL={without_keys.base_url}",
            f"export PARLEY_USAGE__URL={usage} PARLEY_REQUEST_LOG__URL=sqlite:///{folder}/requests.db",
            'curl() { command curl --silent --show-error --fail-with-body --max-time 20 "$@"; }',
            *(f"{name}={ADMIN_KEY}" for name in ("KEY", "ADMIN_KEY", "PARLEY_API_KEY")),
            *(
                _address(block, str((with_keys if re.search("Bearer|ADMIN_KEY", block) else without_keys).base_url))
                for block in run
            ),
        ]
        shutil.copy(ROOT / "README.md", folder)
        with anyio.fail_after(60):
            done = await anyio.run_process(["bash", "-c", "\n".join(script)], cwd=folder, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-2000:]


def _address(block: str, base_url: str) -> str:
    block = re.sub(r"(http://)?(127\.0\.0\.1|localhost):800[01]", base_url.rstrip("/"), block)
    return re.sub(r"(?:\.venv/bin/)?\bparley (?=[a-z])", f"{shlex.join(forked_parley())} ", block)


@each_case("command", NOT_RUN)
def test_a_reason_is_given_only_for_a_command_that_a_page_shows(command: str) -> None:
    shown = [block for page in PAGES for block in blocks(page, "sh")]
    assert any(re.match(command, block) for block in shown if not is_run(block))
