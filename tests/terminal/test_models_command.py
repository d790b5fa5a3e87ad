"""`parley models`: the table of a gateway's models, and the answers of gateways that have none."""

import json
import subprocess

import httpx

from tests.clean_environment import clean_environment
from tests.fork_server import forked_parley
from tests.terminal.gateway_process import COMMAND
from tests.terminal.pseudo_terminal import at_terminal

TABLE = """\
MODEL  KIND               TOOLS      THINKING  MEDIA                      MAX INPUT
slow   openai_compatible  server     on/off    image, audio, video, file  -
qwen3  vllm               from text  on/off    text only                  32000
eyes   vllm               server     on/off    image, video, audio        -
demo   demo               server     on/off    image, video, audio        -
"""


def models(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    environ = clean_environment(PARLEY_URL=url)
    return subprocess.run(
        [*forked_parley(), "models", *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_models_are_a_table_or_json(gateway: str) -> None:
    ran = models(url=gateway)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, TABLE, "")
    listed = models("--json", url=f"{gateway}/v1/")
    assert [row["parley"] for row in json.loads(listed.stdout)] == [
        row["parley"] for row in httpx.get(f"{gateway}/v1/models", trust_env=False).json()["data"]
    ]


def test_the_header_is_bold_at_a_terminal(gateway: str) -> None:
    with at_terminal([*COMMAND, "models"], clean_environment(PARLEY_URL=gateway)) as terminal:
        assert terminal.wait_until_ended() == 0
    assert terminal.text.startswith("\x1b[1mMODEL ")
    assert terminal.text.count("\x1b") == 2


def test_a_gateway_that_cannot_be_reached_is_one_line_of_error(gateway: str) -> None:
    ran = models(url="http://127.0.0.1:1")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith("parley: cannot connect to http://127.0.0.1:1: Connection refused. Is a gateway")
    ran = models(url=f"{gateway}/nowhere")
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("parley: not_found: ")
