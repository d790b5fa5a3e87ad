"""Threads that write rows and log lines."""

import os
import sys
import threading

import pytest
from app.runtime.background_thread import start_background_thread


@pytest.mark.skipif(sys.platform != "linux", reason="SCHED_BATCH is a policy of Linux")
def test_a_background_thread_waits_until_the_event_loop_pauses() -> None:
    policies: list[int] = []
    thread = start_background_thread("a test", lambda: policies.append(os.sched_getscheduler(0)))
    thread.join(5)
    assert policies == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_it_runs_the_function_with_its_arguments_under_its_name() -> None:
    seen: list[tuple[str, int]] = []

    def run(number: int) -> None:
        seen.append((threading.current_thread().name, number))

    thread = start_background_thread("cache-writer", run, 7)
    thread.join(5)
    assert seen == [("cache-writer", 7)] and thread.daemon
