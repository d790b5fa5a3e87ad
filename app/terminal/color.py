"""When to use colours, and which."""

from collections.abc import Mapping
from typing import TextIO

DIM, BOLD, RED, GREEN, YELLOW, CYAN, END = (f"\x1b[{code}m" for code in (2, 1, 31, 32, 33, 36, 0))


def use_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to write colours to a stream: to a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, style: str, *, color: bool) -> str:
    return f"{style}{text}{END}" if color and text else text
