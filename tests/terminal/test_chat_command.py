"""`parley chat` as people use it: at a pseudo-terminal and in pipes, against a gateway with the demo model."""

import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest
from app.cli import main
from msgspec import Struct

from tests.clean_environment import clean_environment
from tests.fork_server import forked_parley
from tests.terminal.cutting_proxy import cutting_proxy
from tests.terminal.gateway_process import COMMAND
from tests.terminal.pseudo_terminal import CTRL_C, CTRL_D, SECONDS, TAB, UP, at_terminal
from tests.terminal.slow_model import SlowModel

CHAT = (*COMMAND, "chat")
DIM, CALL, END = "\x1b[2m", "\x1b[36m", "\x1b[0m"
GUIDE = Path(__file__).parents[2] / "docs/guides/files.md"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
(PDF,) = re.findall(r"^cat >word.pdf <<'END'\n(.*?)^END\n", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
WEATHER = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]


class Ran(Struct):
    status: int
    out: str
    err: str


class Parley(Protocol):
    def __call__(self, *arguments: str, stdin: str = "", url: str = ...) -> Ran: ...


@pytest.fixture
def parley(gateway: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Parley:
    """Runs a command in an empty folder, with its input from a pipe."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str = "", url: str = gateway) -> Ran:
        monkeypatch.setattr(os, "environ", clean_environment(PARLEY_URL=url))
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        return Ran(main([*arguments]), *capsys.readouterr())

    return run


def home(gateway: str, folder: Path) -> dict[str, str]:
    return clean_environment(PARLEY_URL=gateway, XDG_STATE_HOME=str(folder), TERM="xterm", INPUTRC="/dev/null")


def forked_chat(*arguments: str) -> tuple[str, ...]:
    return (*forked_parley(), "chat", *arguments)


def test_a_question_and_a_pipe_are_answered_without_colours_and_prompts(parley: Parley) -> None:
    asked = parley("chat", "Hello", "there")
    piped = parley("chat", stdin="Hello there\n")
    both = parley("chat", "Hello", "-", stdin="there\n")
    for ran in (asked, piped, both):
        assert (ran.status, ran.err) == (0, "")
        assert "You asked: “Hello there”." in ran.out
        assert "\x1b" not in ran.out and "> " not in ran.out


def test_bytes_that_are_no_text_and_a_closed_input_are_no_crash(gateway: str) -> None:
    environ = clean_environment(PARLEY_URL=gateway, PYTHONIOENCODING="ascii")
    ran = subprocess.run([*CHAT, "-"], input=b"caf\xe9", env=environ, capture_output=True, timeout=SECONDS, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"You asked: ?caf" in ran.stdout
    closed = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", *CHAT], env=environ, capture_output=True, timeout=SECONDS, check=False
    )
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, b"", b"")


def test_each_line_of_a_pipe_is_a_question_of_one_conversation_which_can_be_converted(parley: Parley) -> None:
    assert parley("chat", stdin="One\nTwo\n/save talk.json\n").status == 0
    saved = json.loads(Path("talk.json").read_text())
    assert [message["content"] for message in saved if message["role"] == "user"] == ["One", "Two"]
    converted = parley("convert", "--to", "openai", "talk.json")
    assert [message["role"] for message in json.loads(converted.out)] == ["user", "assistant"] * 2


def test_an_image_and_a_pdf_reach_the_model(parley: Parley) -> None:
    Path("a.png").write_bytes(PNG)
    Path("b.pdf").write_text(PDF)
    ran = parley("chat", "What is this?", "--image", "a.png")
    assert "I see 1 attachment(s), known to me only by media type: image/png." in ran.out
    ran = parley("chat", "Read", "--image", "b.pdf")
    assert "The secret word is parsley." in ran.out
    assert ran.err == "b.pdf is sent with the next question, as file\n"


def test_a_conversation_at_a_terminal_has_prompts_colours_and_history(gateway: str, tmp_path: Path) -> None:
    with at_terminal(forked_chat(), home(gateway, tmp_path)) as terminal:
        terminal.wait_for(f"the default model at {gateway}. /help lists the commands")
        terminal.wait_for("> ")
        terminal.type("Hello\r")
        terminal.wait_for(f"{DIM}The{END}")
        terminal.wait_for("You asked: “Hello”.")
        terminal.wait_for("\n> ")
        terminal.type("/he" + TAB + "\r")
        terminal.wait_for("forget the conversation")
        terminal.wait_for("> ")
        terminal.type(UP + UP + "!\r")
        terminal.wait_for("You asked: “Hello!”.")
        terminal.wait_for("\n> ")
        terminal.type(CTRL_D)
        assert terminal.wait_until_ended() == 0
    history = tmp_path / "parley" / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text().split() == ["Hello", "/help", "Hello!"]
    with at_terminal(forked_chat("--no-history"), home(gateway, tmp_path)) as terminal:
        terminal.wait_for("> ")
        terminal.type("/model\r")
        terminal.wait_for("  demo")
        terminal.type("/quit\r")
        assert terminal.wait_until_ended() == 0
    assert history.read_text().split() == ["Hello", "/help", "Hello!"]


def test_no_color_and_a_dumb_terminal_are_respected(gateway: str, tmp_path: Path) -> None:
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with at_terminal(forked_chat("Hello"), {**home(gateway, tmp_path), **more}) as terminal:
            assert terminal.wait_until_ended() == 0
        assert "You asked: “Hello”." in terminal.text
        assert "\x1b" not in terminal.text


def test_a_call_is_shown_and_answered_at_the_prompt(gateway: str, tmp_path: Path) -> None:
    (tmp_path / "functions.json").write_text(json.dumps(WEATHER))
    with at_terminal(
        forked_chat("--functions", "functions.json"), home(gateway, tmp_path), folder=str(tmp_path)
    ) as terminal:
        terminal.wait_for("> ")
        terminal.type("What is the weather in Paris?\r")
        terminal.wait_for(f"{CALL}get_weather({END}")
        terminal.wait_for('result of get_weather({"city": "Paris"}): ')
        terminal.type("sunny, 21 °C\r")
        terminal.wait_for("The function get_weather returned: sunny, 21 °C")
        terminal.wait_for("\n> ")
        terminal.type("/quit\r")
        assert terminal.wait_until_ended() == 0


def test_ctrl_c_stops_the_reply_at_the_model_server_and_not_the_program(
    slow: SlowModel, gateway: str, tmp_path: Path
) -> None:
    slow.go.clear()
    slow.left.clear()
    with at_terminal([*CHAT, "--model", "slow"], home(gateway, tmp_path)) as terminal:
        terminal.wait_for("> ")
        terminal.type("Hello\r")
        terminal.wait_for("Wait")
        terminal.type(CTRL_C)
        terminal.wait_for("stopped; the question is not part of the conversation")
        assert slow.left.wait(SECONDS)
        terminal.wait_for("> ")
        slow.go.set()
        terminal.type("Again\r")
        terminal.wait_for("Wait done")
        terminal.wait_for("\n> ")
        terminal.interrupt_until("Ctrl-C again")
        terminal.wait_for("\n> ")
        assert terminal.interrupt_until_ended() == 130


def test_a_program_that_is_ended_stops_its_reply(slow: SlowModel, gateway: str, tmp_path: Path) -> None:
    slow.go.clear()
    slow.left.clear()
    command = [*CHAT, "--model", "slow", "Hello"]
    with subprocess.Popen(command, env=home(gateway, tmp_path), stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.read(4) == b"Wait"
        process.terminate()
        assert slow.left.wait(SECONDS)
        assert process.wait(SECONDS) == 130


def test_a_connection_that_breaks_in_a_reply_is_resumed(gateway: str, parley: Parley) -> None:
    whole = parley("chat", "Hello").out
    with cutting_proxy(gateway, 3000) as proxy:
        ran = parley("chat", "Hello", url=proxy.url)
    assert (ran.status, ran.out) == (0, whole)
    assert ran.err == "parley: the connection broke; the reply is resumed in 0.5 s\n"
    first, second = proxy.requests
    assert first == "POST /v1/chat HTTP/1.1"
    assert second.startswith("GET /v1/chat/chat-") and "/events?after=" in second
