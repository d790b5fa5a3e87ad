"""Worker processes of `parley serve` that are forked from their supervisor: without the second that a new interpreter
takes to load the modules.

`python -m tests.forked_workers serve` is `parley serve` with such workers.
"""

import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn

_spawn = util.spawnv_passfds


def fork_workers() -> None:
    """Fork the processes that multiprocessing would spawn from now on."""
    util.spawnv_passfds = _start


def _start(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    if args[-1] != "--multiprocessing-fork":
        return _spawn(path, args, passfds)  # the tracker of resources, which loads little
    # Ends the thread that writes the log, which the worker would not have. The next line that is logged starts another.
    logging.shutdown()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    process = os.fork()
    if not process:
        _become_worker(args[-2], {0, 1, 2, *passfds}, mask)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def _become_worker(program: str, files: set[int], mask: Iterable[int]) -> NoReturn:
    """Run the program as a new interpreter would: with its own signals, without log handlers and other files."""
    code = 1
    try:
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for file in {int(entry.name) for entry in Path("/proc/self/fd").iterdir()} - files:
            with contextlib.suppress(OSError):  # that of the list itself
                os.close(file)
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)
        sys.argv = ["-c", "--multiprocessing-fork"]
        exec(program)
    except SystemExit as ended:
        code = read_exit_code(ended)
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        end_process(code)


def read_exit_code(ended: SystemExit) -> int:
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def end_process(code: int) -> NoReturn:
    """End this process without taking apart its modules."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    from app import cli

    fork_workers()
    sys.exit(cli.main(sys.argv[1:]))
