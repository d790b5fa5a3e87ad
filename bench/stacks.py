"""The stacks that py-spy sampled, in its format `raw`."""

import re
from typing import NamedTuple

# A sample that was taken while the process went on can hold memory that is no name.
_SOUND = re.compile(r"[^;]+ \([^;]+:\d+\)").fullmatch


class Stack(NamedTuple):
    functions: list[str]
    """From the outermost to the innermost, as `feed (app/formats/base.py:119)`."""
    samples: int


def parse(text: str) -> list[Stack]:
    """Return the stacks whose functions could all be read."""
    stacks = []
    for line in text.splitlines():
        names, _, count = line.rpartition(" ")
        functions = names.split(";")
        if count.isdigit() and line.isprintable() and all(map(_SOUND, functions)):
            stacks.append(Stack(functions, int(count)))
    return stacks
