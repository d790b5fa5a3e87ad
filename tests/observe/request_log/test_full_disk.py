"""Entries are deleted from a log whose disk is full: a small one of its own, in memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.each_case import each_case

ROOT = Path(__file__).parents[3]
FILL = """
import contextlib, os, random, sys
from pathlib import Path
from app.observe.request_log.file import LogFile, LogFileError, Query
from tests.observe.request_log.log_entries import add, entry

folder, reserve = Path(sys.argv[1]), int(sys.argv[2])
path = str(folder / "requests.db")
file = LogFile(path, reserve)
draw = random.Random(1)
written = {"alice": 0, "bob": 0}
with contextlib.suppress(LogFileError):
    for number in range(1000):
        key = ("alice", "bob")[number % 2]
        add(file, entry(draw.randbytes(30_000), f"of {key} {number}", key))
        written[key] += 1
assert 10 < written["alice"] < 500, written
with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as filler:
    while True:
        filler.write(bytes(4096))

def in_files(text):
    return any(text in part.read_bytes() for part in folder.iterdir())

def count(key):
    return len(file.find_entries(Query(key=key), 1000))

def check():
    assert not in_files(b"of alice")
    assert (count("alice"), count("bob")) == (0, written["bob"])
    assert Path(path + "-reserve").stat().st_size == reserve
"""
DELETE = """
assert in_files(b"of alice")
assert file.delete(Query(key="alice")) == written["alice"]
check()
"""
DELETE_IN_A_NEW_PROCESS = """
import subprocess
file.close()
os.environ |= {"PARLEY_REQUEST_LOG__URL": f"sqlite:///{path}", "PARLEY_REQUEST_LOG__MAX_BYTES": str(8 * reserve)}
command = [sys.executable, "-m", "app.cli", "requests", "delete", "--key", "alice", "--yes"]
done = subprocess.run(command, capture_output=True, text=True)
assert done.stdout == f"{written['alice']} requests deleted\\n", done
check()
"""
TRIM = """
assert file.trim(1024**3, 1, 86_402.0) == sum(written.values())
assert (count("alice"), count("bob")) == (0, 0)
"""
REFUSE = """
try:
    file.delete(Query(key="alice"))
except LogFileError as error:
    assert "full" in str(error), error
else:
    assert False
"""
OTHERS_WRITE = """
other = LogFile(path, reserve)
Path(path + "-reserve").unlink()  # as another process does that deletes
try:
    add(other, entry(b"x"))
except LogFileError as error:
    assert "KiB of the disk are free" in str(error), error
else:
    assert False
"""


def run(folder: Path, script: str, reserve: int) -> None:
    """Run a script whose folder is a file system of 4 MiB, where the machine allows to mount one."""
    mount = f"mount -t tmpfs -o size=4m tmpfs {folder}"
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-ec"]
    try:
        subprocess.run([*namespace, mount], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system cannot be mounted here")
    command = [*namespace, f'{mount}; exec "$@"', "sh", sys.executable, "-c", script, str(folder), str(reserve)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@each_case(
    ("script", "reserve"),
    [
        (DELETE, 256 * 1024),
        (DELETE_IN_A_NEW_PROCESS, 256 * 1024),
        (TRIM, 256 * 1024),
        (REFUSE, 0),
        (OTHERS_WRITE, 256 * 1024),
    ],
)
def test_a_full_disk(script: str, reserve: int, tmp_path: Path) -> None:
    run(tmp_path, FILL + script, reserve)
