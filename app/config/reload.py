"""`Reloader`: reads the configuration again, at SIGHUP and when its file changes, and applies what can change while the
gateway runs.

A configuration with a mistake is refused as a whole, and the old one stays. What a running process cannot change keeps
its old value, and the log names it. A configuration that is not valid together with these old values is refused too.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import watchfiles
from pydantic import BaseModel

from app.config.mistakes import find_mistakes
from app.config.settings import Settings, SettingsError
from app.config.sources import read_config_bytes

log = logging.getLogger("parley.reload")

LIVE_SETTINGS = frozenset(
    {
        "default_model",
        "passthrough",
        "tokenizer",
        "upstreams",
        "models",
        "prices",
        "keys",
        "jwt",
        "teams",
        "limits",
        "mcp_servers",
        "tools",
        "agents",
        "guards",
        "masking",
        "server.max_body_bytes",
        "server.body_seconds",
        "server.max_json_values",
        "server.max_messages",
        "server.max_content_items",
        "server.max_functions",
        "server.max_nesting",
        "server.max_concurrent_requests",
        "server.allowed_hosts",
        "server.allowed_origins",
        "server.allow_anonymous",
        "server.base_path",
        "server.trusted_proxies",
        "server.settle_seconds",
        "server.admin_key",
        "server.log_level",
    }
)
"""The settings that a reload applies, with everything in them. The others keep their values until a restart."""
SETTLE_SECONDS = 0.25
"""A changed file is read when it has not changed for this time, because programs write files in several steps."""

ApplySettings: TypeAlias = Callable[[Settings], Awaitable[None]]
"""Applies new settings; if it raises, nothing is applied."""
WatchFolder: TypeAlias = Callable[[Path, asyncio.Event], AsyncIterator[object]]
"""Yields after each change in the folder of a file, until the event is set."""


class Reloader:
    """Runs in one event loop, with at most one reload at a time."""

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Settings],
        apply: ApplySettings,
        *,
        clock: Callable[[], float] = time.time,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """`settings` are those that the process has. `load` reads new ones, in a thread. Raises SettingsError."""
        self._settings = settings
        self._load = load
        self._apply = apply
        self._clock = clock
        self._settle_seconds = settle_seconds
        self._requested = False
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.last_at: float | None = None
        """The Unix time of the last reload; None before the first."""
        self.last_succeeded: bool | None = None

    def request(self) -> None:
        """Reload soon. A request during a reload leads to one more."""
        self._requested = True
        if self._task is None and not self._stopped.is_set():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._requested:
                self._requested = False
                await self.reload()
        finally:
            self._task = None

    async def reload(self) -> bool:
        """Read the configuration and apply it. Returns whether it was accepted; the log has the mistakes."""
        accepted = False
        try:
            accepted = await self._reload()
        except SettingsError as error:
            log.error("the configuration was not reloaded, and the old one stays: %s", "; ".join(error.mistakes))
        except Exception:
            log.exception("defect while reloading the configuration; the old one stays")
        self.last_at, self.last_succeeded = self._clock(), accepted
        return accepted

    async def _reload(self) -> bool:
        loaded = await asyncio.to_thread(self._load)
        kept = find_fixed_changes(self._settings, loaded)
        settings = keep_fixed(self._settings, loaded)
        if kept:
            _check_with_old_values(settings, kept)
        if settings == self._settings:
            log.info("the configuration was read again: nothing to apply has changed")
        else:
            await self._apply(settings)
            self._settings = settings
            log.info("the configuration was reloaded")
        if kept:
            log.warning("these settings have changed in the configuration: restart to apply %s", ", ".join(kept))
        return True

    def watch(self, file: Path, changes: WatchFolder | None = None) -> None:
        """Start to reload when the file changes. `changes` is for tests."""
        watching = self._watch(file, changes or watch_folder)
        self._watching = asyncio.get_running_loop().create_task(watching)

    async def _watch(self, file: Path, changes: WatchFolder) -> None:
        read = read_config_bytes(file)
        try:
            async for _ in changes(file, self._stopped):
                found = await self._read_settled(file)
                # A file that is missing for a moment is being replaced.
                if found is not None and found != read:
                    read = found
                    self.request()
        except (OSError, RuntimeError) as error:  # such as too many watches
            log.warning("%s cannot be watched; send SIGHUP to reload it: %s", file, error)

    async def _read_settled(self, file: Path) -> bytes | None:
        """Return the file's content once it has stopped changing; None if there is no file."""
        before = read_config_bytes(file)
        while True:
            await asyncio.sleep(self._settle_seconds)
            found = read_config_bytes(file)
            if found == before:
                return found
            before = found

    async def aclose(self) -> None:
        """Stop watching, and wait for a reload that runs."""
        self._stopped.set()
        self._requested = False
        tasks = [task for task in (self._watching, self._task) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


def watch_folder(file: Path, stopped: asyncio.Event) -> AsyncIterator[object]:
    """Yield after each change in the folder of a file, which also shows that the file, or a link that leads to it, was
    replaced. The file is watched too: a mounted file changes without its folder."""
    paths = [path for path in (file.parent, file) if path.exists()]
    return watchfiles.awatch(*paths, watch_filter=None, stop_event=stopped, recursive=False)


def find_fixed_changes(old: Settings, new: Settings) -> list[str]:
    """Return the paths of the settings that differ and need a restart, such as `server.port`."""
    return sorted(path for path in _changed_paths(old, new) if path not in LIVE_SETTINGS)


def keep_fixed(old: Settings, new: Settings) -> Settings:
    """Return the new settings with the old values of those that need a restart."""
    sections: dict[str, object] = {}
    for path in find_fixed_changes(old, new):
        section, _, name = path.partition(".")
        if name:
            now = sections.get(section, getattr(new, section))
            assert isinstance(now, BaseModel)
            sections[section] = now.model_copy(update={name: getattr(getattr(old, section), name)})
        else:
            sections[section] = getattr(old, section)
    return new.model_copy(update=sections)


def _check_with_old_values(settings: Settings, kept: list[str]) -> None:
    """`settings` have the old values of the settings that `kept` names. Raises SettingsError."""
    mistakes = find_mistakes(settings)
    if mistakes:
        reason = "what can change without a restart is not valid with the old values"
        raise SettingsError([f"restart to apply {', '.join(kept)}, because {reason}", *mistakes])


def _changed_paths(old: Settings, new: Settings) -> list[str]:
    """Return the settings that differ: of the server each field, of the rest whole sections."""
    changed: list[str] = []
    for name in Settings.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if name in LIVE_SETTINGS or not isinstance(before, BaseModel):
            changed.append(name)
        else:
            fields = type(before).model_fields
            changed += [f"{name}.{field}" for field in fields if getattr(before, field) != getattr(after, field)]
    return changed
