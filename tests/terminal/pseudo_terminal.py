"""A program at a pseudo-terminal: keys are typed, and the output is waited for."""

import codecs
import contextlib
import errno
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from tests.terminal_device import open_terminal

CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"
SECONDS = 60.0
"""How long an output is waited for; the machine may be busy."""
PRESSES = 20
"""How often Ctrl-C is pressed in that time, if nothing comes of it."""


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        """Everything that was written, with CRLF as LF."""
        self._searched = 0

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> str:
        """Wait until the text is written, after what was waited for before. Returns what came before it."""
        ends = time.monotonic() + SECONDS
        while (place := self.text.find(text, self._searched)) < 0:
            assert self._read(ends - time.monotonic()), f"{text!r} did not come: {self.text[self._searched :]!r}"
        before = self.text[self._searched : place]
        self._searched = place + len(text)
        return before

    def interrupt_until(self, text: str) -> None:
        """Press Ctrl-C until the text is written: Python's readline misses a signal that comes after it has written the
        prompt and before it waits for a key."""
        for _ in range(PRESSES):
            self.type(CTRL_C)
            ends = time.monotonic() + SECONDS / PRESSES
            while (place := self.text.find(text, self._searched)) < 0 and self._read(ends - time.monotonic()):
                pass
            if place >= 0:
                self._searched = place + len(text)
                return
        raise AssertionError(f"{text!r} did not come: {self.text[self._searched :]!r}")

    def interrupt_until_ended(self) -> int:
        """Press Ctrl-C until the program has ended, and return its exit status."""
        for _ in range(PRESSES):
            self.type(CTRL_C)
            ends = time.monotonic() + SECONDS / PRESSES
            while self._read(ends - time.monotonic()):
                pass
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(1)
        raise AssertionError(f"it does not end: {self.text[self._searched :]!r}")

    def wait_until_ended(self) -> int:
        """Read until the program has ended, and return its exit status."""
        ends = time.monotonic() + SECONDS
        while self._read(ends - time.monotonic()):
            pass
        return self.process.wait(SECONDS)

    def _read(self, seconds: float) -> bool:
        """Read what there is. Returns False at the end, and when nothing came in time."""
        if not select.select([self._descriptor], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self._descriptor, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # Linux: the program has closed the terminal
                return False
            raise
        text = self._decoder.decode(data)  # a character may arrive in two reads, and so may CRLF
        if text.startswith("\n"):
            self.text = self.text.removesuffix("\r")
        self.text += text.replace("\r\n", "\n")
        return bool(data)


@contextlib.contextmanager
def at_terminal(command: Sequence[str], environ: Mapping[str, str], folder: str | None = None) -> Iterator[Terminal]:
    """Run the command with a terminal of its own, so that Ctrl-C reaches it as a signal."""
    ours, its = open_terminal()
    environ = {"TERM": "xterm", "PATH": os.environ["PATH"], **environ}
    process = subprocess.Popen(
        # setsid gives the program this terminal as its controlling one.
        ["setsid", "--ctty", "--wait", *command],
        stdin=its,
        stdout=its,
        stderr=its,
        env=environ,
        cwd=folder,
    )
    os.close(its)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
