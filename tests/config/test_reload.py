"""A changed configuration is applied, one with a mistake is refused, and what needs a restart is named."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from app.config.reload import Reloader, find_fixed_changes, keep_fixed, watch_folder
from app.config.settings import Settings, SettingsError

pytestmark = pytest.mark.anyio

UPSTREAMS = {"box": {"base_url": "http://127.0.0.1:1/v1"}}


def configured(**tree: Any) -> Settings:
    return Settings.model_validate({"upstreams": UPSTREAMS, **tree})


def with_model(name: str) -> Settings:
    return configured(models={name: {"upstreams": ["box"]}})


class Applied:
    """Keeps what was applied, and can wait for it."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []
        self.changed = asyncio.Event()

    async def __call__(self, settings: Settings) -> None:
        self.settings.append(settings)
        self.changed.set()


def reloader(loads: Callable[[], Settings], applied: Applied, first: Settings | None = None) -> Reloader:
    return Reloader(first or with_model("a"), loads, applied, clock=lambda: 1000.0, settle_seconds=0.01)


def failing(*mistakes: str) -> Callable[[], Settings]:
    def load() -> Settings:
        raise SettingsError([*mistakes])

    return load


async def test_new_settings_are_applied_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parley.reload")
    applied = Applied()
    one = reloader(lambda: with_model("b"), applied)
    assert (one.last_at, one.last_succeeded) == (None, None)
    assert await one.reload()
    assert [[*settings.models] for settings in applied.settings] == [["b"]]
    assert (one.last_at, one.last_succeeded) == (1000.0, True)
    assert await one.reload()
    assert len(applied.settings) == 1
    assert [record.message for record in caplog.records] == [
        "the configuration was reloaded",
        "the configuration was read again: nothing to apply has changed",
    ]


async def test_mistakes_are_named_in_one_line_and_nothing_is_applied(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parley.reload")
    applied = Applied()
    one = reloader(failing("server.port: must be a number", "models.m: wrong"), applied)
    assert not await one.reload()
    assert applied.settings == []
    assert one.last_succeeded is False
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "server.port: must be a number; models.m: wrong" in record.message


async def test_a_configuration_that_cannot_be_applied_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parley.reload")
    failures = [RuntimeError("no tokenizer")]
    applied = Applied()

    async def apply(settings: Settings) -> None:
        if failures:
            raise failures.pop()
        await applied(settings)

    one = Reloader(with_model("a"), lambda: with_model("b").model_copy(update={"demo": True}), apply)
    assert not await one.reload()
    assert "the old one stays" in caplog.text and "restart" not in caplog.text
    assert await one.reload()
    assert len(applied.settings) == 1
    assert "restart to apply demo" in caplog.text


async def test_what_needs_a_restart_keeps_its_value_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parley.reload")
    old = configured(models={"a": {"upstreams": ["box"]}}, server={"port": 8001})
    new = configured(
        models={"b": {"upstreams": ["box"]}},
        server={"port": 9000, "max_messages": 7},
        cache={"url": "null:", "scope": "caller"},
        demo=True,
    )
    assert find_fixed_changes(old, new) == ["cache.scope", "cache.url", "demo", "server.port"]
    kept = keep_fixed(old, new)
    assert (kept.server.port, kept.server.max_messages, [*kept.models]) == (8001, 7, ["b"])
    assert (kept.cache, kept.demo) == (old.cache, old.demo)
    applied = Applied()
    assert await reloader(lambda: new, applied, old).reload()
    assert applied.settings == [kept]
    assert "restart to apply cache.scope, cache.url, demo, server.port" in caplog.text


KEY = {"one": {"sha256": "0" * 64}}
MB = 1024 * 1024
BODIES = {"max_body_bytes": 2 * MB, "max_request_memory_bytes": 4 * MB}
MODELS = {"a": {"upstreams": ["box"]}}


@pytest.mark.parametrize(
    ("old", "new", "kept", "mistake"),
    [
        (
            {"server": {"host": "0.0.0.0"}, "keys": KEY},
            {"server": {"host": "127.0.0.1"}},
            "server.host",
            "server.host: '0.0.0.0' is not a loopback address",
        ),
        (
            {"server": BODIES},
            {"server": {name: 10 * size for name, size in BODIES.items()}},
            "server.max_request_memory_bytes",
            "server.max_request_memory_bytes: must be at least twice server.max_body_bytes, so at least 41943040, not",
        ),
        ({}, {"demo": True, "default_model": "demo"}, "demo", "default_model: there is no model 'demo'"),
        ({}, {"upstreams": {}, "models": {}, "demo": True}, "demo", "models: there is none"),
    ],
)
async def test_what_is_not_valid_with_values_that_need_a_restart_is_refused(
    old: dict[str, Any], new: dict[str, Any], kept: str, mistake: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "parley.reload")
    base = {"models": MODELS}
    applied = Applied()
    one = reloader(lambda: configured(**base | new), applied, configured(**base | old))
    assert not await one.reload()
    assert (applied.settings, one.last_succeeded) == ([], False)
    (record,) = caplog.records
    assert f"the old one stays: restart to apply {kept}, because " in record.message
    assert f"; {mistake}" in record.message


async def test_a_request_during_a_reload_leads_to_one_more() -> None:
    gate = asyncio.Event()
    names = iter("bcdefg")
    applied: list[str] = []

    async def apply(settings: Settings) -> None:
        await gate.wait()
        applied.extend(settings.models)

    one = Reloader(with_model("a"), lambda: with_model(next(names)), apply)
    one.request()
    await asyncio.sleep(0)
    for _ in range(5):
        one.request()
    gate.set()
    async with asyncio.timeout(5):
        while len(applied) < 2:
            await asyncio.sleep(0.001)
    await one.aclose()
    assert applied == ["b", "c"]


def write_in_place(folder: Path, text: str) -> None:
    (folder / "parley.toml").write_text(text)


def replace_file(folder: Path, text: str) -> None:
    (folder / "new").write_text(text)
    (folder / "new").replace(folder / "parley.toml")


def swap_config_map(folder: Path, text: str) -> None:
    """As Kubernetes updates a mounted ConfigMap: parley.toml -> ..data/parley.toml, ..data -> ..<version>."""
    version = folder / f"..{text}"
    version.mkdir()
    (version / "parley.toml").write_text(text)
    (folder / "..data_tmp").symlink_to(version.name)
    (folder / "..data_tmp").replace(folder / "..data")
    if not (folder / "parley.toml").exists():
        (folder / "parley.toml").symlink_to("..data/parley.toml")


@pytest.mark.parametrize("change", [write_in_place, replace_file, swap_config_map])
async def test_a_changed_file_is_noticed(change: Callable[[Path, str], None], tmp_path: Path) -> None:
    change(tmp_path, "a")
    file = tmp_path / "parley.toml"
    applied = Applied()
    one = reloader(lambda: with_model(file.read_text()), applied)
    started = asyncio.Event()

    async def changes(watched: Path, stopped: asyncio.Event) -> AsyncIterator[object]:
        found = watch_folder(watched, stopped)
        waiting = asyncio.ensure_future(anext(found))
        await asyncio.sleep(0.2)  # until the thread watches
        started.set()
        yield await waiting
        async for more in found:
            yield more

    one.watch(file, changes)
    async with asyncio.timeout(10):
        await started.wait()
        for text in ("b", "c"):
            change(tmp_path, text)
            await applied.changed.wait()
            applied.changed.clear()
            assert [*applied.settings[-1].models] == [text]
    await one.aclose()


async def test_a_file_that_is_being_written_or_replaced_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "parley.toml"
    file.write_text("a")
    applied = Applied()
    turns: asyncio.Queue[None] = asyncio.Queue()

    async def changes(_: Path, stopped: asyncio.Event) -> AsyncIterator[object]:
        while True:
            turn = asyncio.ensure_future(turns.get())
            stop = asyncio.ensure_future(stopped.wait())
            await asyncio.wait({turn, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if stopped.is_set():
                turn.cancel()
                return
            yield None

    loads: list[str] = []

    def load() -> Settings:
        loads.append(file.read_text())
        return with_model(loads[-1])

    one = Reloader(with_model("a"), load, applied, settle_seconds=0.05)
    one.watch(file, changes)
    file.unlink()
    turns.put_nowait(None)
    await asyncio.sleep(0.12)
    file.write_text("")
    turns.put_nowait(None)
    await asyncio.sleep(0.02)
    file.write_text("whole")
    async with asyncio.timeout(5):
        await applied.changed.wait()
    await one.aclose()
    assert loads == ["whole"]
