"""The files of the cache and of the state where the settings name none."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from app.config.settings import Settings
from app.config.tables.base import Table
from app.redis.urls import RedisUrl, parse_cache_url
from app.state.urls import FileUrl, PostgresUrl, parse_state_url


def with_default_files(settings: Settings, environ: Mapping[str, str], config: Path) -> Settings:
    """Without a URL, the cache uses a file for this configuration in the user's cache folder, and the state one in the
    user's data folder, if these are writable. The totals of usage are in the state."""
    cache = _default_file_url(_user_folder(environ, "XDG_CACHE_HOME", ".cache"), "", config)
    update: dict[str, Table] = {}
    if settings.cache.url is None and cache is not None:
        update["cache"] = settings.cache.model_copy(update={"url": cache})
    settings = settings.model_copy(update=update)
    state = settings.state.url or _find_state_url(settings, environ, config)
    usage = settings.usage.url or settings.state.url or state or _default_state_url(environ, config)
    requests = settings.request_log.url or _default_file_url(_data_folder(environ), "requests-", config)
    return settings.model_copy(
        update={
            "request_log": settings.request_log.model_copy(update={"url": requests}),
            "state": settings.state.model_copy(update={"url": state}),
            "usage": settings.usage.model_copy(update={"url": usage}),
        }
    )


def _find_state_url(settings: Settings, environ: Mapping[str, str], config: Path) -> str | None:
    """Return where the state is if `state.url` does not say it. None if it stays with the cache: gateways that share a
    Redis, and no PostgreSQL, share their stored responses there."""
    address = parse_state_url(settings.usage.url or "null:")
    if isinstance(address, PostgresUrl):
        return settings.usage.url
    if isinstance(parse_cache_url(settings.cache.url or "memory:"), RedisUrl):
        return None
    is_file = isinstance(address, FileUrl) and address.path
    return settings.usage.url if is_file else _default_state_url(environ, config)


def _default_state_url(environ: Mapping[str, str], config: Path) -> str | None:
    """Return the file of the state; the one in which this configuration counted its usage before, if there is one."""
    folder = _data_folder(environ)
    name = _default_file_name(config)
    counted = folder is not None and name is not None and (folder / f"usage-{name}").exists()
    return _default_file_url(folder, "usage-" if counted else "state-", config)


def _default_file_url(folder: Path | None, prefix: str, config: Path) -> str | None:
    name = _default_file_name(config)
    if folder is None or name is None or not _is_writable(folder):
        return None
    return f"sqlite:///{quote(str(folder / f'{prefix}{name}'))}"


def _data_folder(environ: Mapping[str, str]) -> Path | None:
    return _user_folder(environ, "XDG_DATA_HOME", ".local/share")


def _user_folder(environ: Mapping[str, str], variable: str, default: str) -> Path | None:
    """Return Parley's folder in the one that the variable names, else in a folder of the user's home."""
    if Path(environ.get(variable) or "").is_absolute():
        return Path(environ[variable]) / "parley"
    return Path(environ["HOME"]) / default / "parley" if Path(environ.get("HOME") or "").is_absolute() else None


def _default_file_name(config: Path) -> str | None:
    """Return `work-1f0c92ab.db` for /home/me/work/parley.toml.

    The name consists of the folder, the file's name unless it is parley.toml, and a hash of the absolute path. Links
    are not followed, so a configuration that is replaced through a link keeps its files. None if the working folder
    was deleted.
    """
    try:
        path = Path(os.path.normpath(config.absolute()))
    except FileNotFoundError:
        return None
    words = [path.parent.name, *([] if path.name == "parley.toml" else [path.stem])]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(words)).strip("-")[:60] or "parley"
    digest = hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()
    return f"{readable}-{digest}.db"


def _is_writable(folder: Path) -> bool:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
