"""deploy/nginx.conf, run by the real nginx: what clients get when nginx itself must answer."""

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chaos_processes import nginx_conf
from processes import find_nginx

from tests.redis_server import free_port

NGINX = find_nginx()
BODY = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an nginx whose gateways do not run."""
    if NGINX is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    conf = folder / "nginx.conf"
    conf.write_text(nginx_conf(folder, port, [free_port(), free_port()]), "utf-8")
    options = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    command = [NGINX, "-c", str(conf), "-p", str(folder), "-g", options, "-e", "stderr"]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _wait_until_open(port)
    yield port
    process.send_signal(signal.SIGQUIT)
    process.wait(10)


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline, "nginx does not listen"
            time.sleep(0.02)
        else:
            return


def post(port: int, path: str, **more: Any) -> httpx.Response:
    more.setdefault("content", b"{}")
    return httpx.post(f"http://127.0.0.1:{port}{path}", trust_env=False, **more)


def exchange(port: int, data: bytes) -> tuple[int, bytes]:
    """Send bytes and return the status and the body that come back. nginx may wait for more bytes after that."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as connection,
        http.client.HTTPResponse(connection) as response,
    ):
        connection.sendall(data)
        response.begin()
        return response.status, response.read()


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/chat-1/events", "/v1/convert", "/metrics"])
def test_without_a_gateway_the_error_has_the_shape_of_the_gateway(port: int, path: str) -> None:
    reply = post(port, path, headers={"x-request-id": "my-id.1"})
    error = reply.json()["error"]
    assert (reply.status_code, reply.headers["retry-after"], reply.headers["x-should-retry"]) == (503, "1", "true")
    assert reply.headers["content-type"] == "application/json" and reply.headers["x-request-id"] == "my-id.1"
    assert error.pop("message")
    expected = {"code": "overloaded", "param": None, "status": 503, "retryable": True, "request_id": "my-id.1"}
    assert error == expected


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/responses/resp_1", "/v1/models?a=b"])
def test_without_a_gateway_openais_clients_get_openais_error(port: int, path: str) -> None:
    reply = post(port, path)
    assert (reply.status_code, reply.json()["error"]["type"]) == (503, "server_error")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages?beta=true"])
def test_without_a_gateway_anthropics_clients_get_anthropics_error(port: int, path: str) -> None:
    reply = post(port, path)
    assert (reply.status_code, reply.json()["type"]) == (529, "error")
    assert reply.json()["error"]["type"] == "overloaded_error"
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


def test_an_id_that_would_break_the_json_is_replaced(port: int) -> None:
    reply = post(port, "/v1/chat", headers={"x-request-id": 'a","b":"'})
    assert reply.json()["error"]["request_id"] == reply.headers["x-request-id"] != 'a","b":"'


def test_a_body_that_is_too_large_is_refused_as_the_gateway_does(port: int) -> None:
    for path, code in (("/v1/messages", b'"type":"request_too_large"'), ("/v1/chat", b'"code":"too_large"')):
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40000000\r\nconnection: close\r\n\r\n"
        status, body = exchange(port, head.encode())
        assert status == 413 and code in body and b'"retryable":false' in body


def test_headers_that_are_too_long_are_refused_in_json(port: int) -> None:
    reply = post(port, "/v1/chat", headers={"x-long": "a" * 40_000})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_request")


def test_what_is_not_http_is_refused_in_json(port: int) -> None:
    status, body = exchange(port, b"NO HTTP\r\n\r\n")
    assert status == 400 and b'"code":"invalid_request"' in body


def test_the_pages_of_errors_cannot_be_requested(port: int) -> None:
    assert post(port, "/nginx-error/timeout").status_code == 404


def test_the_largest_body_is_that_of_the_gateway() -> None:
    from app.config.tables.server import Server

    text = (Path(__file__).parents[2] / "deploy/nginx.conf").read_text("utf-8")
    assert f"client_max_body_size {Server().max_body_bytes // 2**20}m;" in text
