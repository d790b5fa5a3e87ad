"""The health check of a container, against sockets that answer as gateways do and as they do not."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from app.commands.health import check_health, find_address

from tests.each_case import each_case
from tests.redis_server import free_port

ROOT = Path(__file__).parents[1]


@contextmanager
def serve_status(status: int) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_gateway_that_answers_200_is_healthy() -> None:
    with serve_status(200) as port:
        check_health("127.0.0.1", port)


def test_any_other_answer_is_not_healthy() -> None:
    with serve_status(503) as port, pytest.raises(OSError, match="503"):
        check_health("127.0.0.1", port)


def test_a_port_at_which_nothing_listens_is_not_healthy() -> None:
    with pytest.raises(OSError):
        check_health("127.0.0.1", free_port())


def test_the_exit_status_says_whether_the_gateway_is_healthy() -> None:
    command = [sys.executable, "-m", "app.commands.health"]
    with serve_status(200) as port:
        environ = {"PARLEY_SERVER__PORT": str(port), "PARLEY_SERVER__HOST": "0.0.0.0"}
        assert subprocess.run(command, cwd=ROOT, env=environ).returncode == 0
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.startswith("parley: the gateway is not healthy: ")


FILE = '[server]\nhost = "10.1.2.3"\nport = 9000\n'


@each_case(
    "environ, text, expected",
    [
        ({}, None, ("127.0.0.1", 8000)),
        ({"PARLEY_SERVER__HOST": "0.0.0.0"}, None, ("127.0.0.1", 8000)),
        ({"PARLEY_SERVER__HOST": "::"}, None, ("::1", 8000)),
        ({"PARLEY_SERVER__HOST": "[::1]", "PARLEY_SERVER__PORT": "81"}, None, ("::1", 81)),
        ({}, FILE, ("10.1.2.3", 9000)),
        ({"PARLEY_SERVER__HOST": "0.0.0.0"}, FILE, ("127.0.0.1", 9000)),
        ({"PARLEY_SERVER__PORT": "81"}, FILE, ("10.1.2.3", 81)),
        ({}, 'default_model = "m"\n', ("127.0.0.1", 8000)),
    ],
)
def test_the_address_is_the_one_that_is_configured(
    environ: dict[str, str], text: str | None, expected: tuple[str, int], tmp_path: Path
) -> None:
    file = tmp_path / "parley.toml"
    file.write_text(text or "", "utf-8")
    assert find_address(environ if text is None else environ | {"PARLEY_CONFIG": str(file)}) == expected


def test_a_file_that_is_named_and_missing_is_an_error() -> None:
    with pytest.raises(OSError):
        find_address({"PARLEY_CONFIG": "/nonexistent/parley.toml"})


def test_the_check_imports_no_package_but_the_standard_library() -> None:
    program = "import sys, app.commands.health; print(*{name.partition('.')[0] for name in sys.modules})"
    ended = subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {*ended.stdout.split()} - sys.stdlib_module_names <= {"__main__", "app"}
