"""parley cache: what it says, what it deletes, and what it ends with."""

import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.cli import main
from app.commands.cache import count_replies
from app.config.load import load
from app.stores import opened_store
from typing_extensions import override

from tests.clean_environment import clean_environment
from tests.redis_server import RedisServer
from tests.restored_logging import restored_logging


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    monkeypatch.setitem(os.environ, "XDG_CACHE_HOME", str(tmp_path))
    with restored_logging():
        yield


def default_url() -> str:
    url = load().cache.url
    assert url is not None
    return url


def filled(url: str) -> None:
    async def fill() -> None:
        async with opened_store(url) as store:
            for number in range(5):
                model = "qwen3" if number else "a"
                await store.put(f"{number}", bytes(1000), ttl_seconds=60, model=model)

    asyncio.run(fill())


def test_stats_count_the_entries_of_each_model_and_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    filled(default_url())
    assert main(["cache", "stats"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["cache:", default_url().removeprefix("sqlite:///")],
        ["a", "1", "replies", "1,000", "bytes"],
        ["qwen3", "4", "replies", "4,000", "bytes"],
        ["all", "models", "5", "replies", "5,000", "bytes"],
    ]


@pytest.mark.parametrize(("model", "line"), [("qwen3", "qwen3 4 replies 4,000 bytes"), ("x", "x 0 replies 0 bytes")])
def test_stats_of_one_model_count_only_its_entries(model: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    filled(default_url())
    assert main(["cache", "stats", "--model", model]) == 0
    assert [" ".join(one.split()) for one in capsys.readouterr().out.splitlines()[1:]] == [line]


def test_purge_deletes_what_is_of_a_model_and_then_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    filled(default_url())
    assert main(["cache", "purge", "--model", "qwen3", "--yes"]) == 0
    assert main(["cache", "purge", "--yes"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["4", "1"]


def test_the_cache_of_a_named_file_is_meant(shared_redis: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    filled(shared_redis.url)
    Path("other.toml").write_text(f'[cache]\nurl = "{shared_redis.url}"')
    assert main(["cache", "purge", "--yes", "--config", "other.toml"]) == 0
    assert capsys.readouterr().out == f"5 replies deleted from the cache: redis at 127.0.0.1:{shared_redis.port}\n"


@pytest.mark.parametrize("url", ["memory:", "null:"])
def test_a_cache_in_memory_cannot_be_read_by_the_command(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("parley.toml").write_text(f'[cache]\nurl = "{url}"')
    assert main(["cache", "stats"]) == 2
    assert capsys.readouterr().err.startswith(f"parley: the cache is {url[:-1]}: it cannot be read")


def test_an_error_of_the_store_is_printed_without_the_password(
    own_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    own_redis.kill()
    Path("parley.toml").write_text(f'[cache]\nurl = "redis://u:s3cret@127.0.0.1:{own_redis.port}"')
    assert main(["cache", "stats"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("parley: redis: ") and "s3cret" not in output.err + output.out


class Terminal(io.StringIO):
    """Standard input with a person at it."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("YES\n", 1), ("n\n", 5), ("\n", 5), ("", 5), ("all\n", 5)])
def test_purge_deletes_only_after_a_yes(
    answer: str, left: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(default_url())
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert main(["cache", "purge", "--model", "qwen3"]) == (0 if left == 1 else 1)
    output = capsys.readouterr()
    place = default_url().removeprefix("sqlite:///")
    assert output.err.startswith(f"Delete 4 replies from the cache: {place}? [y/N] ")
    assert ("nothing was deleted" in output.err) == (left == 5)
    assert asyncio.run(count_replies(default_url())) == left


def test_purge_without_a_terminal_wants_a_yes_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(default_url())
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["cache", "purge"]) == 2
    assert "use --yes" in capsys.readouterr().err
    assert asyncio.run(count_replies(default_url())) == 5
