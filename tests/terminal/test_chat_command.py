"""`parley chat` as people use it: at a pseudo-terminal and in pipes, against a gateway with the demo model."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.cutting_proxy import cutting_proxy
from tests.terminal.gateway_process import COMMAND, clean_environment, running_gateway
from tests.terminal.pseudo_terminal import CTRL_C, CTRL_D, SECONDS, TAB, UP, at_terminal
from tests.terminal.slow_model import SlowModel, slow_model

CHAT = (*COMMAND, "chat")
DIM, CALL, END = "\x1b[2m", "\x1b[36m", "\x1b[0m"
GUIDE = Path(__file__).parents[2] / "docs/guides/files.md"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
(PDF,) = re.findall(r"^cat >word.pdf <<'END'\n(.*?)^END\n", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
WEATHER = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway() as url:
        yield url


@pytest.fixture(scope="module")
def slow() -> Iterator[SlowModel]:
    with slow_model() as model:
        yield model


@pytest.fixture(scope="module")
def slow_gateway(slow: SlowModel) -> Iterator[str]:
    with running_gateway({"PARLEY_UPSTREAM_URL": slow.url}) as url:
        yield url


def chat(
    gateway: str, *arguments: str, stdin: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environ = clean_environment(PARLEY_URL=gateway)
    return subprocess.run(
        [*CHAT, *arguments],
        input=stdin,
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def home(gateway: str, folder: Path) -> dict[str, str]:
    return clean_environment(PARLEY_URL=gateway, XDG_STATE_HOME=str(folder), TERM="xterm", INPUTRC="/dev/null")


def test_a_question_and_a_pipe_are_answered_without_colours_and_prompts(gateway: str) -> None:
    asked = chat(gateway, "Hello", "there")
    piped = chat(gateway, stdin="Hello there\n")
    both = chat(gateway, "Hello", "-", stdin="there\n")
    for ran in (asked, piped, both):
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "You asked: “Hello there”." in ran.stdout
        assert "\x1b" not in ran.stdout and "> " not in ran.stdout


def test_each_line_of_a_pipe_is_a_question_of_one_conversation(gateway: str, tmp_path: Path) -> None:
    assert chat(gateway, stdin="One\nTwo\n/save talk.json\n", folder=tmp_path).returncode == 0
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert [message["content"] for message in saved if message["role"] == "user"] == ["One", "Two"]


def test_a_saved_conversation_can_be_converted(gateway: str, tmp_path: Path) -> None:
    chat(gateway, stdin="One\n/save talk.json\n", folder=tmp_path)
    converted = subprocess.run(
        [*COMMAND, "convert", "--to", "openai", "talk.json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [message["role"] for message in json.loads(converted.stdout)] == ["user", "assistant"]


def test_an_image_and_a_pdf_reach_the_model(gateway: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.pdf").write_text(PDF)
    ran = chat(gateway, "What is this?", "--image", "a.png", folder=tmp_path)
    assert "I see 1 attachment(s), known to me only by media type: image/png." in ran.stdout
    ran = chat(gateway, "Read", "--image", "b.pdf", folder=tmp_path)
    assert "The secret word is parsley." in ran.stdout
    assert ran.stderr == "b.pdf is sent with the next question, as file\n"


def test_a_conversation_at_a_terminal_has_prompts_colours_and_history(gateway: str, tmp_path: Path) -> None:
    with at_terminal(CHAT, home(gateway, tmp_path)) as terminal:
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
        assert terminal.ended() == 0
    history = tmp_path / "parley" / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text().split() == ["Hello", "/help", "Hello!"]
    with at_terminal([*CHAT, "--no-history"], home(gateway, tmp_path)) as terminal:
        terminal.wait_for("> ")
        terminal.type("/model\r")
        terminal.wait_for("  demo")
        terminal.type("/quit\r")
        assert terminal.ended() == 0
    assert history.read_text().split() == ["Hello", "/help", "Hello!"]


def test_no_color_and_a_dumb_terminal_are_respected(gateway: str, tmp_path: Path) -> None:
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with at_terminal([*CHAT, "Hello"], {**home(gateway, tmp_path), **more}) as terminal:
            assert terminal.ended() == 0
        assert "You asked: “Hello”." in terminal.text
        assert "\x1b" not in terminal.text


def test_a_call_is_shown_and_answered_at_the_prompt(gateway: str, tmp_path: Path) -> None:
    (tmp_path / "functions.json").write_text(json.dumps(WEATHER))
    with at_terminal(
        [*CHAT, "--functions", "functions.json"], home(gateway, tmp_path), folder=str(tmp_path)
    ) as terminal:
        terminal.wait_for("> ")
        terminal.type("What is the weather in Paris?\r")
        terminal.wait_for(f"{CALL}get_weather({END}")
        terminal.wait_for('result of get_weather({"city": "Paris"}): ')
        terminal.type("sunny, 21 °C\r")
        terminal.wait_for("The function get_weather returned: sunny, 21 °C")
        terminal.wait_for("\n> ")
        terminal.type("/quit\r")
        assert terminal.ended() == 0


def test_ctrl_c_stops_the_reply_at_the_model_server_and_not_the_program(
    slow: SlowModel, slow_gateway: str, tmp_path: Path
) -> None:
    slow.go.clear()
    slow.left.clear()
    with at_terminal([*CHAT, "--model", "m"], home(slow_gateway, tmp_path)) as terminal:
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
        terminal.type(CTRL_C)
        terminal.wait_for("Ctrl-C again")
        terminal.type(CTRL_C)
        assert terminal.ended() == 130


def test_a_program_that_is_ended_stops_its_reply(slow: SlowModel, slow_gateway: str, tmp_path: Path) -> None:
    slow.go.clear()
    slow.left.clear()
    command = [*CHAT, "--model", "m", "Hello"]
    with subprocess.Popen(command, env=home(slow_gateway, tmp_path), stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.read(4) == b"Wait"
        process.terminate()
        assert slow.left.wait(SECONDS)
        assert process.wait(SECONDS) == 130


def test_a_connection_that_breaks_in_a_reply_is_resumed(gateway: str) -> None:
    whole = chat(gateway, "Hello").stdout
    with cutting_proxy(gateway, 3000) as proxy:
        ran = chat(proxy.url, "Hello")
    assert (ran.returncode, ran.stdout) == (0, whole)
    assert ran.stderr == "parley: the connection broke; the reply is resumed in 0.5 s\n"
    first, second = proxy.requests
    assert first == "POST /v1/chat HTTP/1.1"
    assert second.startswith("GET /v1/chat/chat-") and "/events?after=" in second
