"""A pseudo-terminal of the system, for tests of programs at a terminal."""

import os

import pytest


def open_terminal() -> tuple[int, int]:
    """Return the descriptors of both ends. Skips the test where there is none, as in a chroot without /dev/pts."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"this machine gives no pseudo-terminal: {error}")
