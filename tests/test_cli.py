"""The command line: what it prints, what it ends with, and what it hands on."""

import io
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import app.server.process
import pytest
from app import __version__
from app.cli import main
from app.config.settings import Settings
from app.config.tables.server import Server
from typing_extensions import override

from tests.clean_environment import clean_environment
from tests.fork_server import forked_parley
from tests.restored_logging import restored_logging

SOUND = """
passthrough = "local"
[upstreams.local]
base_url = "http://127.0.0.1:1/v1"
api_key = "s3cret"
[models.m]
upstreams = ["local"]
"""


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, and an environment that is restored and has nothing to say."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    with restored_logging():
        yield tmp_path


def written(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


# -- the parser ---------------------------------------------------------------------------


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"parley {__version__}\n")


@pytest.mark.parametrize(
    "argv", [[], ["sever"], ["serve", "--prot", "1"], ["serve", "--port", "x"], ["serve", "x"], ["openapi", "x"]]
)
def test_bad_arguments_end_with_two_and_the_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: parley")


def test_the_module_runs() -> None:
    root = Path(__file__).parent.parent
    ran = subprocess.run(
        [sys.executable, "-m", "app.cli", "check-config"],
        cwd=root,
        env={"PATH": "", "PARLEY_SERVER__PORT": "x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("parley: server.port (PARLEY_SERVER__PORT): ")


def test_the_version_is_printed_without_loading_what_takes_long() -> None:
    script = """
import sys
from app.cli import main
try:
    main(["--version"])
except SystemExit:
    pass
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"asyncio", "fastapi", "httpx", "pydantic", "redis"}))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == f"parley {__version__}\n\n"


def test_an_output_whose_reader_has_left_is_no_error() -> None:
    command = [sys.executable, "-m", "app.cli", "completion", "bash"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 1)


# -- check-config ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("", "the built-in model demo"),
        (SOUND, "m, every other model of http://127.0.0.1:1/v1"),
        (SOUND.replace('passthrough = "local"', "demo = true"), "m, the built-in model demo"),
        (SOUND.partition("[models")[0], "every model of http://127.0.0.1:1/v1"),
    ],
)
def test_a_sound_configuration_ends_with_zero(text: str, models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", written("a.toml", text)]) == 0
    assert capsys.readouterr() == (f"the configuration is valid; models: {models}\n", "")


class ModelServer(BaseHTTPRequestHandler):
    """Knows its models under /v1, for a client that has the key."""

    def do_GET(self) -> None:
        keyed = self.headers["authorization"] == "Bearer s3cret"
        found = self.path == "/v1/models"
        body = b'{"data": [{"id": "m"}, {"id": "n"}]}' if found and keyed else b'{"error": "bad key s3cret"}'
        self.send_response((200 if keyed else 401) if found else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def model_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelServer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield "http://{}:{}".format(*server.server_address)
        server.shutdown()
        thread.join()


def online(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """What check-config ends with, and its lines after the first."""
    status = main(["check-config", "--online", written("a.toml", text)])
    out, err = capsys.readouterr()
    assert err == ""
    assert "s3cret" not in out
    return status, out.splitlines()[1:]


def test_upstreams_that_work_are_printed_with_their_models(
    model_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{model_server}/v1"
    text = SOUND.replace("http://127.0.0.1:1/v1", url)
    assert online(text, capsys) == (0, [f"upstream local at {url}: works; models: m, n"])
    status, lines = online(text.replace("[models.m]", "[models.served-m]"), capsys)
    assert (status, lines[1]) == (0, "  it does not list 'served-m'; available models: m, n")


def test_an_upstream_that_is_down_is_printed_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = online(SOUND, capsys)
    assert (status, lines[0]) == (1, "upstream local at http://127.0.0.1:1/v1: connection refused")
    assert lines[1:] == ["  start the server, or correct host and port in base_url"]


def test_every_mistake_is_a_line_and_no_secret_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = SOUND + "max_retries = -1\nfoo = 1\n[server]\nport = 70000\n"
    assert main(["check-config", written("a.toml", wrong)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line.removeprefix("parley: ").partition(":")[0] for line in err.splitlines()]
    assert lines == ["server.port", "models.m.max_retries", "models.m.foo"]
    assert "s3cret" not in err


def test_the_file_of_the_folder_or_the_environment_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    written("parley.toml", "x = 1")
    assert main(["check-config"]) == 2
    os.environ["PARLEY_CONFIG"] = written("other.toml", "")
    assert main(["check-config"]) == 0
    assert main(["check-config", "nowhere.toml"]) == main(["check-config", "--config", "nowhere.toml"]) == 2
    nowhere = "parley: nowhere.toml: cannot be read (No such file or directory)\n"
    assert capsys.readouterr().err == f"parley: x: is not a known key\n{nowhere}{nowhere}"


TOKENIZERS = SOUND + '[models.m.profile]\ntokenizer = "own.json"\n[models.n]\nupstreams = ["local"]\n'
UNUSABLE = (
    "parley: tokenizer: all.json: cannot be read (No such file or directory)\n"
    "parley: models.m.profile.tokenizer: own.json: is not a valid tokenizer file "
)


def test_a_tokenizer_file_that_cannot_be_used_is_a_mistake_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    written("own.json", "{}")
    assert main(["check-config", written("a.toml", 'tokenizer = "all.json"' + TOKENIZERS)]) == 2
    assert capsys.readouterr().err.startswith(UNUSABLE)


# -- serve --------------------------------------------------------------------------------


def fail_to_serve(port: str, workers: str) -> "subprocess.CompletedProcess[str]":
    """Run a gateway that cannot start."""
    return subprocess.run(
        [*forked_parley(), "serve", "--port", port],
        env=os.environ | {"PARLEY_SERVER__WORKERS": workers},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_tokenizer_file_that_cannot_be_used_is_named_by_serve_too(workers: str) -> None:
    written("own.json", "{}")
    written("parley.toml", 'tokenizer = "all.json"' + TOKENIZERS)
    ran = fail_to_serve("0", workers)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(UNUSABLE)
    assert len(ran.stderr.splitlines()) == 2


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings with which serving began."""
    begun: list[Settings] = []

    def serve(settings: Settings, banner: Callable[[int], list[str]]) -> int:
        begun.append(settings)
        print("\n".join(banner(settings.server.port)))
        return 7

    monkeypatch.setattr(app.server.process, "serve", serve)
    return begun


def test_the_banner_says_where_and_what_to_try_and_serving_ends_with_its_code(
    served: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve"]) == 7
    assert [(one.demo, one.upstreams, one.server) for one in served] == [(True, {}, Server())]
    assert capsys.readouterr().out.splitlines() == [
        f"parley {__version__} listens at http://127.0.0.1:8000, serving the built-in model demo",
        "Try, in another terminal:",
        "  curl -N http://127.0.0.1:8000/v1/chat -H 'content-type: application/json'"
        """ -d '{"messages": [{"role": "user", "content": "Hello"}]}'""",
        "  parley chat Hello",
        "or open http://127.0.0.1:8000/ in a browser.",
        "For a real model server, set PARLEY_UPSTREAM_URL, for example to http://127.0.0.1:8001/v1",
    ]


@pytest.mark.parametrize(
    ("host", "shown", "here"),
    [
        ("0.0.0.0", "http://0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("::", "http://[::]:9000", "http://[::1]:9000"),
        ("::1", "http://[::1]:9000", "http://[::1]:9000"),
        ("localhost", "http://localhost:9000", "http://localhost:9000"),
    ],
)
def test_what_to_try_can_be_typed_as_it_stands(
    host: str,
    shown: str,
    here: str,
    served: list[Settings],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PARLEY_SERVER__ALLOW_ANONYMOUS", "true")
    other = SOUND + "[models.n]\nupstreams = ['local']\n"
    main(["serve", "--config", written("a.toml", other), "--host", host, "--port", "9000"])
    lines = capsys.readouterr().out.splitlines()
    assert f"listens at {shown}, serving m, n," in lines[0]
    assert lines[2].startswith(f"  curl -N {here}/v1/chat ") and '{"model": "m", "messages":' in lines[2]
    assert lines[3] == f"  parley chat --url {here} --model m Hello"


def test_the_command_to_try_is_the_one_that_was_typed(
    served: list[Settings], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path.cwd() / ".venv/bin/parley"), "serve"])
    main(["serve"])
    assert "  .venv/bin/parley chat Hello" in capsys.readouterr().out.splitlines()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_in_use_is_one_plain_sentence(workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = fail_to_serve(str(port), workers)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"parley: port {port} of 127.0.0.1 is already in use by another program. "
        "Stop that program, or choose another port with --port or PARLEY_SERVER__PORT\n"
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_of_the_metrics_in_use_is_one_plain_sentence(
    workers: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_SERVER__WORKERS", workers)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("PARLEY_METRICS__PORT", str(port))
        assert main(["serve", "--port", "0"]) == 1
        in_use = capsys.readouterr().err
    assert in_use == (
        f"parley: port {port} of 127.0.0.1 is already in use by another program. "
        "Stop that program, or choose another port with metrics.port or PARLEY_METRICS__PORT\n"
    )


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("no-such-host.invalid", "cannot listen on host 'no-such-host.invalid': this name has no address"),
        ("192.0.2.1", "this machine has no address 192.0.2.1"),
    ],
)
def test_a_host_that_is_not_here_is_one_plain_sentence(
    host: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_SERVER__ALLOW_ANONYMOUS", "true")
    assert main(["serve", "--host", host]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"parley: {words}") and err.count("\n") == 1


@pytest.mark.parametrize(("workers", "log_format"), [(1, "json"), (2, "console")])
def test_the_banner_comes_once_connections_are_taken(workers: int, log_format: str) -> None:
    environ = os.environ | {"PARLEY_SERVER__WORKERS": str(workers), "PARLEY_SERVER__LOG_FORMAT": log_format}
    command = [*forked_parley(), "serve", "--port", str(free_port())]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        too_long = threading.Timer(90, process.kill)
        too_long.start()
        try:
            line = process.stderr.readline()
            logged = json.loads(line)["message"] if log_format == "json" else line.strip()
            where = logged.partition(" listens at ")[2].partition(",")[0]
            with urllib.request.urlopen(f"{where}/healthz") as answer:
                assert answer.status == 200
        finally:
            process.terminate()
        rest = process.stderr.read()
        assert process.wait(20) == 0
        too_long.cancel()
    assert rest.count("listens at") == 0
    assert rest.count("shutting down") == workers
    assert "Traceback" not in rest


def test_the_log_has_all_warnings_of_the_start_before_a_client_gets_an_answer(tmp_path: Path) -> None:
    port = free_port()
    file = written("a.toml", SOUND + "profile = {tool_media = true, takes = 'all'}")
    log = tmp_path / "log"
    command = [*forked_parley(), "serve", "--config", file, "--port", str(port)]
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        too_long = threading.Timer(90, process.kill)
        too_long.start()
        try:
            while process.poll() is None:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz"):
                    break
            lines = [json.loads(line)["message"] for line in log.read_text().splitlines()]
        finally:
            process.terminate()
            too_long.cancel()
    assert "listens at" in lines[0]
    assert len([line for line in lines if "has no effect" in line]) == 2


def test_options_win_over_the_file(served: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    file = written("a.toml", SOUND + '[server]\nport = 1\nhost = "::1"\nworkers = 2\nallow_anonymous = true')
    assert main(["serve", "--config", file, "--port", "9000", "--host", "0.0.0.0"]) == 7
    (settings,) = served
    assert (settings.server.host, settings.server.port, settings.server.workers) == ("0.0.0.0", 9000, 2)
    out, err = capsys.readouterr()
    assert "at http://0.0.0.0:9000, serving m, every other model of http://127.0.0.1:1/v1\n" in out
    assert "s3cret" not in out + err


@pytest.mark.parametrize("argv", [["--port", "70000"], ["--config", "nowhere.toml"]])
def test_serving_does_not_begin_with_a_mistake(
    argv: list[str], served: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *argv]) == 2
    assert served == []
    assert capsys.readouterr().err.startswith("parley: ")


def test_an_interrupted_command_ends_as_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(settings: Settings, banner: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(app.server.process, "serve", interrupted)
    assert main(["serve"]) == 130


# -- openapi --------------------------------------------------------------------------------


def test_the_document_is_printed_in_a_fixed_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.dumps(json.loads(out), indent=2, ensure_ascii=False, sort_keys=True) + "\n" == out


# -- chat -----------------------------------------------------------------------------------

FRAMES = [
    {"type": "response.started"},
    {"type": "message.started", "index": 0, "message": {"role": "assistant"}},
    {"type": "message.delta", "index": 0, "delta": {"content": "Hello"}},
    {"type": "message.completed", "index": 0, "message": {"role": "assistant", "content": "Hello"}},
    {"type": "response.completed", "finish_reason": "stop"},
]


class Gateway(BaseHTTPRequestHandler):
    """Answers everything with the same reply and keeps the requests."""

    requests: list[tuple[str, dict[str, str], Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.requests.append((self.path, dict(self.headers.items()), json.loads(body)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join(f"data: {json.dumps(frame)}\n\n" for frame in FRAMES).encode())

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def requests() -> Iterator[list[tuple[str, dict[str, str], Any]]]:
    class Answering(Gateway):
        requests = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        os.environ["PARLEY_URL"] = f"http://127.0.0.1:{server.server_port}"
        yield Answering.requests
        server.shutdown()
        thread.join()


def test_a_question_is_sent_and_the_reply_printed(requests: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "How", "are", "you?"]) == 0
    assert capsys.readouterr() == ("Hello\nstop\n", "")
    ((path, headers, body),) = requests
    assert path == "/v1/chat"
    assert body["messages"] == [{"role": "user", "content": "How are you?"}]
    assert body.keys() == {"messages", "stream", "cancel_on_disconnect"}
    assert "authorization" not in {name.lower() for name in headers}


def test_the_whole_conversation_is_sent(requests: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["PARLEY_API_KEY"] = "k"
    file = written("functions.json", '[{"name": "f"}]')
    assert main(["chat", "--model", "m", "--system", "Be brief.", "--functions", file, "--json", "Hi"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == FRAMES
    ((_, headers, body),) = requests
    assert headers["authorization"] == "Bearer k"
    assert (body["model"], body["functions"]) == ("m", [{"name": "f"}])
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_the_gateway_can_be_named(requests: list[Any]) -> None:
    url = os.environ.pop("PARLEY_URL")
    assert main(["chat", "--url", url + "/v1", "Hi"]) == 0
    assert len(requests) == 1


def test_without_a_question_a_conversation_begins(
    requests: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("One\nTwo\n"))
    assert main(["chat"]) == 0
    assert [message["content"] for message in requests[1][2]["messages"]] == ["One", "Hello", "Two"]
    assert capsys.readouterr().out.count("Hello\n") == 2


def test_a_gateway_that_is_not_there_ends_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        port = server.server_port
    assert main(["chat", "--url", f"http://127.0.0.1:{port}", "Hi"]) == 2
    assert f"cannot connect to http://127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (None, "f.json: cannot be read (No such file or directory)"),
        ("{", "f.json: is not valid JSON ("),
        ("{}", "f.json: must be a list"),
    ],
)
def test_functions_that_cannot_be_read_are_an_error(
    text: str | None, mistake: str, requests: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        written("f.json", text)
    assert main(["chat", "--functions", "f.json", "Hi"]) == 2
    assert capsys.readouterr().err.startswith(f"parley: {mistake}")
    assert requests == []


def test_a_conversation_begins_with_the_system_message(requests: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("One\n"))
    assert main(["chat", "--system", "Be brief."]) == 0
    assert [message["content"] for message in requests[0][2]["messages"]] == ["Be brief.", "One"]


def test_standard_input_is_part_of_the_question_once(
    requests: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb\n"))
    assert main(["chat", "Explain:", "-"]) == 0
    assert requests[0][2]["messages"][0]["content"] == "Explain:\n\na\nb\n"
    assert main(["chat", "-", "-"]) == 2
    assert capsys.readouterr().err == "parley: standard input (-) can be read only once\n"
