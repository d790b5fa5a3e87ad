"""The files of the cache and of usage where the settings name none."""

from pathlib import Path

import pytest
from app.config.load import load


def cache_file(environ: dict[str, str], path: Path | None = None) -> Path:
    """The file of the default cache."""
    url = load(environ, path).cache.url
    assert url is not None
    return Path(url.removeprefix("sqlite:///"))


def test_by_default_the_cache_is_a_file_of_the_user(empty_folder: Path) -> None:
    environ = {"HOME": str(empty_folder), "XDG_CACHE_HOME": "relative is not allowed"}
    assert cache_file(environ).parent == empty_folder / ".cache/parley"
    environ["XDG_CACHE_HOME"] = str(empty_folder / "of mine")
    assert cache_file(environ).parent == empty_folder / "of%20mine/parley"
    assert load({**environ, "PARLEY_CACHE__URL": "null:"}).cache.url == "null:"


def test_each_configuration_has_a_cache_file_of_its_own(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(empty_folder)}
    one, other = empty_folder / "one", empty_folder / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "parley.toml").touch()
        (folder / "my test!.toml").touch()
    files = {
        cache_file(environ, folder / name).name for folder in (one, other) for name in ("parley.toml", "my test!.toml")
    }
    readable = sorted(name.rsplit("-", 1)[0] for name in files)
    assert readable == ["one", "one-my-test", "other", "other-my-test"]
    monkeypatch.chdir(one)
    there = cache_file(environ)
    assert there == cache_file(environ, one / "parley.toml") == cache_file(environ, Path("parley.toml"))
    assert there == cache_file({**environ, "PARLEY_CONFIG": str(one / "parley.toml")})
    (one / "parley.toml").unlink()
    assert cache_file(environ) == there, "without a file, by the folder"


def test_by_default_usage_is_kept_in_a_file_that_is_not_in_the_cache_folder(empty_folder: Path) -> None:
    environ = {"HOME": str(empty_folder)}
    url = load(environ).usage.url
    assert url is not None
    assert Path(url.removeprefix("sqlite:///")).parent == empty_folder / ".local/share/parley"
    one_folder = {"XDG_DATA_HOME": str(empty_folder), "XDG_CACHE_HOME": str(empty_folder)}
    assert load(one_folder).usage.url != load(one_folder).cache.url
    assert load({**environ, "PARLEY_USAGE__URL": "null:"}).usage.url == "null:"
    assert load({"HOME": ""}).usage.url is None


def test_where_the_working_folder_is_gone_the_cache_is_in_memory(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = empty_folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load({"HOME": str(empty_folder)}).cache.url is None


def test_without_a_place_for_a_file_the_cache_is_in_memory(empty_folder: Path) -> None:
    (empty_folder / "file").touch()
    for environ in ({}, {"HOME": ""}, {"HOME": str(empty_folder / "file")}):
        assert load(environ).cache.url is None
