"""What the doctor finds where replies and usage are kept: Redis, files and PostgreSQL."""

import os
import shutil
from pathlib import Path

import pytest
from app.config.settings import Settings
from app.doctor.examination import Examination, examine_settings
from app.doctor.findings import Finding
from app.doctor.stores import check_cache, check_state, check_usage
from app.stores import opened_store

from tests.redis_server import RedisServer, clustered, running_redis

pytestmark = pytest.mark.anyio

MEBIBYTE = 2**20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def cache(url: str | None, max_bytes: int = MEBIBYTE, seconds: float = 5.0) -> dict[str, Finding]:
    return {finding.check: finding for finding in await check_cache(url, max_bytes, seconds)}


def entries(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


async def test_a_redis_without_a_limit_is_a_warning_and_one_that_refuses_writes_a_problem(
    one_redis: RedisServer,
) -> None:
    found = await cache(one_redis.url)
    assert (found["redis"].status, found["eviction"].status) == ("ok", "warning")
    assert found["redis"].message.startswith("version ")
    for policy, status in (("noeviction", "problem"), ("allkeys-lru", "ok")):
        with running_redis("--maxmemory", "10mb", "--maxmemory-policy", policy) as server:
            found = await cache(server.url)
        assert (found["eviction"].status, found["eviction"].message) == (
            status,
            f"maxmemory 10 MiB, policy {policy}",
        )


async def test_a_cluster_is_checked_at_one_of_its_nodes() -> None:
    with running_redis(
        "--cluster-enabled", "yes", "--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"
    ) as server:
        clustered(server)
        found = await cache(f"redis+cluster://127.0.0.1:{server.port}")
        single = await cache(f"redis://127.0.0.1:{server.port}")
    assert (single["redis"].status, "redis+cluster:" in single["redis"].advice) == ("problem", True)
    assert {check: finding.status for check, finding in found.items()} == {"redis": "ok", "eviction": "ok"}


async def test_a_redis_that_cannot_be_used_is_a_problem_without_the_password() -> None:
    with running_redis("--requirepass", "right-password") as server:
        url = server.url.replace("redis://", "redis://:wrong-password@")
        refused = (await cache(url))["redis"]
        server.pause()
        silent = (await cache(url, seconds=0.2))["redis"]
        server.go_on()
    gone = (await cache(url))["redis"]
    for finding in (refused, silent, gone):
        assert finding.status == "problem" and finding.advice
        assert "wrong-password" not in repr(finding)
    assert refused.message.startswith("refuses the login")
    assert silent.message == "no answer within 0.2 s"
    assert gone.message.startswith("no connection")


async def test_a_file_that_can_be_written_or_created_is_good_and_stays_as_it_is(tmp_path: Path) -> None:
    found = await cache(f"sqlite:///{tmp_path}/new/folder/cache.db")
    assert {check: finding.status for check, finding in found.items()} == {"path": "ok", "disk": "ok"}
    assert entries(tmp_path) == []
    url = f"sqlite:///{tmp_path}/cache.db"
    async with opened_store(url) as store:
        await store.stats()
        in_use = await cache(url)
    for found in (in_use, await cache(url)):
        assert {check: finding.status for check, finding in found.items()} == {"path": "ok", "disk": "ok"}


async def test_a_disk_that_is_too_small_is_a_warning(tmp_path: Path) -> None:
    disk = (await cache(f"sqlite:///{tmp_path}/cache.db", shutil.disk_usage(tmp_path).total * 2))["disk"]
    assert disk.status == "warning"
    assert disk.advice.endswith("or lower cache.max_bytes")


async def test_a_path_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no database, but longer than a hundred bytes: " + "x" * 100)
    for path, message in [
        (tmp_path / "file" / "cache.db", f"{tmp_path}/file is not a folder"),
        (tmp_path, "is not a file"),
        (tmp_path / "file", "is not a database: file is not a database"),
        (Path("/proc/parley/cache.db"), "the folder /proc cannot be written"),
    ]:
        found = await cache(f"sqlite:///{path}")
        if path.is_relative_to("/proc") and os.access("/proc", os.W_OK):
            continue
        assert (found["path"].status, found["path"].message) == ("problem", message)


async def test_stores_without_a_file_are_named() -> None:
    assert (await cache("memory:"))["path"].status == "ok"
    assert (await cache("null:"))["path"].status == "ok"
    assert (await cache(None))["path"].status == "warning"
    assert [(await check_usage(url, 5))[0].status for url in ("memory:", "null:", None)] == ["ok", "ok", "warning"]


async def test_usage_in_a_file_and_in_a_postgresql_that_is_not_there(tmp_path: Path) -> None:
    path, _ = await check_usage(f"sqlite:///{tmp_path}/usage.db", 5)
    assert path.status == "ok"
    (finding,) = await check_usage("postgresql://me:pass-word@127.0.0.1:1/parley", 20)
    assert (finding.check, finding.status) == ("postgres", "problem")
    assert "pass-word" not in repr(finding)


async def test_a_state_of_its_own_is_checked_too(tmp_path: Path) -> None:
    assert [(await check_state(url, 5))[0].status for url in ("memory:", "null:")] == ["ok", "ok"]
    path, _ = await check_state(f"sqlite:///{tmp_path}/state.db", 5)
    assert (path.subject, path.status) == (f"state: {tmp_path}/state.db", "ok")
    (finding,) = await check_state("postgresql://me:pass-word@127.0.0.1:1/parley", 20)
    assert (finding.status, "state.url" in finding.advice) == ("problem", True)


async def test_the_state_is_checked_once_and_named_so_where_usage_is_in_it(tmp_path: Path) -> None:
    state, usage = (f"sqlite:///{tmp_path}/{name}.db" for name in ("state", "usage"))
    for urls, subjects in (
        ((state, state), [f"state: {tmp_path}/state.db"]),
        ((state, usage), [f"state: {tmp_path}/state.db", f"usage: {tmp_path}/usage.db"]),
        ((None, None), ["usage"]),
    ):
        rows = {"cache": {"url": "null:"}, "state": {"url": urls[0]}, "usage": {"url": urls[1]}}
        findings = await examine_settings(Settings.model_validate(rows), Examination(seconds=5))
        assert list(dict.fromkeys(one.subject for one in findings if one.subject != "cache")) == subjects
