"""Where the state is, from the settings; and what was stored before is still there."""

from pathlib import Path

from app.config.load import load
from app.config.settings import Settings
from app.config.storage import keeps_state

from tests.each_case import each_case

FILE, POSTGRES, REDIS = "sqlite:////data/usage.db", "postgresql://p/parley", "redis://r/0"


@each_case(
    ("environ", "state", "usage"),
    [
        ({}, "state", "state"),
        ({"PARLEY_USAGE__URL": FILE}, FILE, FILE),
        ({"PARLEY_USAGE__URL": "memory:"}, "state", "memory:"),
        ({"PARLEY_USAGE__URL": "null:"}, "state", "null:"),
        ({"PARLEY_STATE__URL": POSTGRES}, POSTGRES, POSTGRES),
        ({"PARLEY_STATE__URL": POSTGRES, "PARLEY_USAGE__URL": FILE}, POSTGRES, FILE),
        ({"PARLEY_CACHE__URL": "memory:"}, "state", "state"),
        ({"PARLEY_CACHE__URL": REDIS}, None, "state"),
        ({"PARLEY_CACHE__URL": REDIS, "PARLEY_USAGE__URL": FILE}, None, FILE),
        ({"PARLEY_CACHE__URL": REDIS, "PARLEY_USAGE__URL": POSTGRES}, POSTGRES, POSTGRES),
        ({"PARLEY_CACHE__URL": REDIS, "PARLEY_STATE__URL": FILE}, FILE, FILE),
    ],
)
def test_the_state_has_a_place(environ: dict[str, str], state: str | None, usage: str) -> None:
    settings = load({"XDG_DATA_HOME": "/tmp", **environ})
    default = Path("/tmp/parley")
    for found, wanted in ((settings.state.url, state), (settings.usage.url, usage)):
        if wanted == "state":
            assert found is not None and found.startswith(f"sqlite:///{default}/state-")
        else:
            assert found == wanted


def test_a_file_in_which_usage_was_counted_becomes_the_state(tmp_path: Path) -> None:
    environ = {"XDG_DATA_HOME": str(tmp_path)}
    url = load(environ).state.url
    assert url is not None
    older = Path(url.removeprefix("sqlite:///").replace("/state-", "/usage-"))
    older.parent.mkdir()
    older.touch()
    assert load(environ).state.url == load(environ).usage.url == f"sqlite:///{older}"


def test_null_keeps_nothing_whatever_the_cache_is() -> None:
    for cache, state, kept in (("memory:", "null:", False), ("null:", "memory:", True), ("null:", None, False)):
        assert keeps_state(Settings.model_validate({"cache": {"url": cache}, "state": {"url": state}})) is kept
