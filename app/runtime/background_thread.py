"""Threads that do for the event loop what may take long: they write rows and log lines."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")


def start_background_thread(name: str, target: Callable[[Unpack[Ts]], object], *args: *Ts) -> threading.Thread:
    """Start a daemon thread that does not interrupt the event loop's thread where both share a core.

    Linux runs a thread that was just woken at once, in place of the one that woke it: without this, the event loop
    would stand still for milliseconds whenever it hands over some rows. A thread of the policy SCHED_BATCH waits until
    the event loop pauses. Its share of the CPU is the same.
    """
    thread = threading.Thread(target=_run, args=(target, *args), name=name, daemon=True)
    thread.start()
    return thread


def _run(target: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
    if sys.platform == "linux":
        # A container may forbid it.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    target(*args)
