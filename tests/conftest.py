"""Fixtures that tests of several packages need."""

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import LONG, examples
from tests.fork_server import share_fork_server
from tests.redis_server import one_redis, own_redis, shared_redis
from tests.restored_logging import restored_logging
from tests.whole_coverage import WholeCoverage, is_whole

__all__ = ["one_redis", "own_redis", "shared_redis"]

# How long an example takes depends on how busy the machine is.
settings.register_profile("untimed", examples(), suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


GC_THRESHOLD = 50_000
"""How many new container objects start a search for garbage. Python's 700 are too few for tests that make many objects,
such as those of hypothesis."""


def pytest_configure(config: pytest.Config) -> None:
    _take_ignored_signals()
    if not hasattr(config, "workerinput"):
        # A run that is ended from outside, as .ci/run ends one that takes too long, still names the tests that failed.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        if is_whole(config):
            config.pluginmanager.register(WholeCoverage())
        share_fork_server()  # between the processes of pytest-xdist


def _take_ignored_signals() -> None:
    """Take signals again that this process ignores because nohup or a shell's background job started it: the programs
    that tests start, and send these signals to, would ignore them too."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python does when it starts


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without pauses for garbage, and leaves the tests out of every later search for garbage.

    The tests stay until the end, and there are so many that one search through them takes about a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()


def pytest_sessionfinish() -> None:
    """Looks for garbage once, for warnings of what nothing closed, and leaves all that is left out of the five times
    that pytest looks for it when it ends."""
    gc.collect()
    gc.freeze()


def pytest_make_collect_report(collector: pytest.Collector) -> None:
    """Loads the plugin of schemathesis for the only tests that need it: that takes a quarter of a second."""
    if isinstance(collector, pytest.Module) and collector.path.name == "test_schemathesis.py":
        collector.config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


WAITING = (
    "tests/browser/",
    "tests/live/",
    "tests/deploy/",
    "tests/test_examples.py",
    "tests/pages/",
    "tests/terminal/",
)
"""Where the tests mostly wait for other processes and for clocks."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that wait come first: one process of pytest-xdist then runs most of them, while the others compute. At
    the end only short tests are left. With `FUZZ=long` a test may take any time."""
    items.sort(key=lambda item: not item.nodeid.startswith(WAITING))
    if LONG:
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


MAX_VALUE_IN_NAME = 200
"""Characters of a parametrised value up to which the test is named for it."""


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A name for a long value: the value itself would be in the test's id, which every worker holds in copies."""
    if isinstance(val, str | bytes) and len(val) > MAX_VALUE_IN_NAME:
        return f"{argname} of {len(val)} characters"
    return None


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_the_user() -> Iterator[None]:
    """No gateway that a test starts finds the cache of the user or of another test: its cache can be no file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_CACHE_HOME", os.devnull)
        patch.setitem(os.environ, "XDG_DATA_HOME", os.devnull)
        yield


@pytest.fixture(scope="module", autouse=True)
def logging_as_before_the_module() -> Iterator[None]:
    """The same for an application that a module's fixture makes."""
    with restored_logging():
        yield


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """An application that a test makes sets the level of all logs, which must not outlive the test."""
    with restored_logging():
        yield
