"""`DiskReserve`: place on the disk of the log that a deletion can use when the disk is full.

SQLite writes what a deletion changes into the log of changes first, and that takes place. So a file beside the log
holds some: a deletion that finds none removes it, and it is made again afterwards. The log itself stops to write before
the disk is full, so that neither its own entries nor those of another worker take what the deletion has freed.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1024 * 1024


class DiskReserve:
    def __init__(self, path: str, size: int) -> None:
        """With `size` 0 nothing is reserved."""
        self._path = Path(path)
        self.size = size

    def measure(self) -> int:
        """Return the bytes that it holds."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def check(self, more: int) -> None:
        """Make the file if it is missing. Raises OSError if the disk has too little place for so many bytes more."""
        free = _measure_free(self._path.parent) if self.size else None
        if free is None:
            return
        if free < 2 * self.size + more:
            raise OSError(errno.ENOSPC, f"only {free // 1024} KiB of the disk are free, which deletions need")
        if free >= 4 * self.size and self.measure() != self.size:
            self._fill()

    @contextlib.contextmanager
    def spent(self) -> Iterator[None]:
        """Give its place back to the disk meanwhile."""
        self._path.unlink(missing_ok=True)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self._fill()

    def _fill(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for start in range(0, self.size, _BLOCK):
                file.write(bytes(min(_BLOCK, self.size - start)))


def _measure_free(folder: Path) -> int | None:
    """Return the free bytes of the file system of a folder; None if there is no such folder, or it does not say."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None
