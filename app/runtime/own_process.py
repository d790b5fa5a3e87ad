"""What Linux lets a process set for itself (prctl(2))."""

import ctypes
import sys
from collections.abc import Callable

_PR_SET_DUMPABLE = 4


def find_prctl() -> Callable[..., int] | None:
    """Return the system call; None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        found: Callable[..., int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return found


def hide_process() -> None:
    """Keep the environment and the memory of this process from other processes of its user: the servers of tools run as
    the same user. It then writes no core dump, and only root can trace it."""
    prctl = find_prctl()
    if prctl is not None:
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
