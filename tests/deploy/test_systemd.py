"""deploy/systemd/parley.service, read by systemd's own tool where it is installed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from app.config.settings import Settings
from app.config.tables.server import Server

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/systemd/parley.service"
TEXT = UNIT.read_text("utf-8")
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 15
"""In tenths of systemd's figure, which goes from 0 (safe) to 10."""

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


@needs_systemd
def test_systemd_finds_no_mistake_in_the_unit(tmp_path: Path) -> None:
    assert ANALYZE is not None
    copy = tmp_path / UNIT.name
    copy.write_text(TEXT.replace("/opt/parley/.venv/bin/parley", sys.executable), "utf-8")
    ended = subprocess.run([ANALYZE, "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@needs_systemd
def test_the_service_is_confined() -> None:
    assert ANALYZE is not None
    command = [ANALYZE, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(UNIT)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_the_service_has_time_to_drain_before_it_is_killed() -> None:
    (seconds,) = re.findall(r"(?m)^TimeoutStopSec=(\d+)$", TEXT)
    server = Settings().server
    assert int(seconds) >= server.settle_seconds + server.drain_seconds + 10


def test_every_variable_is_one_that_the_gateway_reads() -> None:
    names = re.findall(r"(?m)^Environment=PARLEY_(\w+)=", TEXT)
    settings = {name.lower() for name in names if "__" in name}
    assert {*names} - {name.upper() for name in settings} == {"CONFIG"}
    for name in settings:
        section, _, field = name.partition("__")
        assert field in getattr(Settings.model_fields[section].annotation, "model_fields", ())


def test_the_service_may_set_the_limits_that_its_document_processes_need() -> None:
    """`nice` and `setrlimit` are in systemd's group @resources."""
    assert not re.search(r"(?m)^SystemCallFilter=~.*@resources", TEXT)
    assert int(re.findall(r"(?m)^LimitNOFILE=(\d+)$", TEXT)[0]) > 2 * Server().max_connections
