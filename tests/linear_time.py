"""Whether work grows no faster than what it is done on."""

import gc
import time
from collections.abc import Callable


def linear(work: Callable[[int], object], size: int) -> bool:
    """Four times as much takes less than ten times as long; were it quadratic, it would be sixteen."""
    gc.disable()
    try:
        some = min(_seconds(work, size) for _ in range(3))
        return any(_seconds(work, 4 * size) < 10 * some for _ in range(3))
    finally:
        gc.enable()


def _seconds(work: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began
