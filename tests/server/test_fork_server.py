"""The server that starts the programs of tests outlives whatever its clients do."""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.clean_environment import clean_environment
from tests.fork_client import receive_number, start
from tests.fork_server import running_fork_server

DEADLINE_SECONDS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    with running_fork_server() as address_and_number:
        yield address_and_number


@contextlib.contextmanager
def paused(process: int) -> Iterator[None]:
    """What happens meanwhile is all there when the process goes on."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def start_reader(address: str) -> tuple[socket.socket, int]:
    """A program that ends when the file is closed that is returned beside its connection."""
    reader, writer = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    folder = os.open(".", os.O_RDONLY)
    connection = start(address, ["json.tool"], clean_environment(), [reader, nothing, nothing, folder])
    connection.settimeout(DEADLINE_SECONDS)
    for file in (reader, nothing, folder):
        os.close(file)
    return connection, writer


def check_starts_programs(address: str) -> None:
    connection, writer = start_reader(address)
    with connection:
        assert receive_number(connection) > 1
        os.write(writer, b"{}")
        os.close(writer)
        assert receive_number(connection) == 0


def test_a_client_leaves_when_its_program_ends(server: tuple[str, int]) -> None:
    address, number = server
    connection, writer = start_reader(address)
    child = os.pidfd_open(receive_number(connection))
    with paused(number):
        os.close(writer)
        assert select.select([child], [], [], DEADLINE_SECONDS)[0], "the program has not ended"
        connection.close()
    os.close(child)
    check_starts_programs(address)


def test_a_program_ends_when_its_client_has_left(server: tuple[str, int]) -> None:
    address, number = server
    connection, writer = start_reader(address)
    child = os.pidfd_open(receive_number(connection))
    with paused(number):
        connection.close()
        os.close(writer)
        assert select.select([child], [], [], DEADLINE_SECONDS)[0], "the program has not ended"
    os.close(child)
    check_starts_programs(address)


def test_a_client_disconnects_before_its_program_has_started(server: tuple[str, int]) -> None:
    address, number = server
    with paused(number):
        connection, writer = start_reader(address)
        connection.close()
    os.close(writer)
    check_starts_programs(address)


@pytest.mark.parametrize("request_", [b"", b"\0\0\0\x09", b"\0\0\0\x09{"])
def test_a_client_leaves_within_its_request(server: tuple[str, int], request_: bytes) -> None:
    address, _ = server
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall(request_)
    check_starts_programs(address)


def test_a_server_that_fails_says_so_to_its_clients(capfd: pytest.CaptureFixture[str]) -> None:
    with running_fork_server() as (address, _), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_SECONDS)
        connection.connect(address)
        connection.sendall(b"\0\0\0\x01?")
        assert receive_number(connection) == 1
    assert "JSONDecodeError" in capfd.readouterr().err
