"""`RenewingCredential`: the key for a model server that a command prints or a file holds, renewed before it ends.

It is renewed in the background, by one task for all (`CredentialStore`), so that no request waits for it but the first.
While it cannot be renewed the old one is sent until its end. Times are those of the wall clock: a machine that slept
must not send a credential that has ended.
"""

import asyncio
import logging
import math
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from app.runtime.throttled_log import ThrottledLog
from app.upstream.credential_output import Credential, parse_credential
from app.upstream.faults import SECRET_SHAPES
from app.upstream.redaction import SECRET, Redactor

log = logging.getLogger("parley.credentials")

MAX_BYTES = 64 * 1024
COMMAND_SECONDS = 30.0
MIN_AGE_SECONDS = 10.0
"""A credential that a server refuses is renewed at once, unless it is younger, or was to be renewed a moment ago."""
CHECK_SECONDS = 1.0
"""How often it is looked what is due."""
FILE_SECONDS = 5.0
"""How often it is looked whether a file has changed."""
_MAX_WAIT_SECONDS = 60.0
_LIFE_PART = 0.8
_LEAST_WAIT_SECONDS = 5.0
_LONG_SECONDS, _LEAST_LEFT_SECONDS = 3600.0, 600.0
"""One that lives longer than an hour is renewed ten minutes before its end at the latest, as botocore does
(botocore/credentials.py, `_mandatory_refresh_timeout`)."""
_MAX_SHOWN_ERRORS = 2000
_STDERR = 2


class CredentialUnavailable(Exception):
    """There is no valid credential. The text says why, and quotes nothing of it."""


class CredentialSource(Struct, frozen=True):
    """Where a credential comes from. Upstreams with the same source share it."""

    command: tuple[str, ...] = ()
    """A program and its arguments, without a shell."""
    file: str = ""
    """Without a command: the path of a file."""
    environ: tuple[tuple[str, str], ...] = ()
    """All variables of the command."""
    life_seconds: float = 300.0
    """How long the output of a command is valid, if it does not say it."""

    @property
    def name(self) -> str:
        """For messages: of a command only its program, because arguments may hold secrets."""
        return f"the command {self.command[0]!r}" if self.command else f"the file {self.file!r}"


class RenewingCredential:
    """Belongs to one event loop."""

    def __init__(self, source: CredentialSource, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds."""
        self.source = source
        self.error = ""
        """Why the last renewal failed; empty if it succeeded."""
        self.renewals = self.failures = 0
        """How often it was renewed, and could not be."""
        self.due_at = -math.inf
        """When it is to be renewed, in Unix seconds."""
        self._clock = clock
        self._current: Credential | None = None
        self._former = ""
        self._tried_at = -math.inf
        self._failed_in_a_row = 0
        self._file_state: tuple[int, ...] = ()
        self._renewal: asyncio.Task[None] | None = None
        self._throttled_log = ThrottledLog(log)

    @property
    def expires_at(self) -> float | None:
        """When the present one ends; None if it does not say so, or there is none."""
        return None if self._current is None else self._current.expires_at

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown: the present value and the one before, which a server may still quote."""
        present = "" if self._current is None else self._current.value
        return tuple(value for value in (present, self._former) if value)

    async def get(self) -> Credential:
        """Return a valid one, and wait for it only if there is none. Raises CredentialUnavailable."""
        found = self._find_valid()
        if found is None and not (self.error and self._renewal is None and self._clock() < self.due_at):
            await self._renew()
            found = self._find_valid()
        if found is None:
            raise CredentialUnavailable(f"{self.source.name} gave none: {self.error or 'the last one has ended'}")
        return found

    async def replace_refused(self, refused: Credential) -> Credential | None:
        """Return another one than the server has refused; None if there is none."""
        was_tried = self._renewal is None and self._clock() - self._tried_at < MIN_AGE_SECONDS
        if self._current is refused and not was_tried:
            await self._renew()
        found = self._find_valid()
        return found if found is not None and found.value != refused.value else None

    def check(self) -> None:
        """Begin a renewal if one is due."""
        if self._clock() >= self.due_at:
            self._start()

    async def check_file(self) -> None:
        """Begin a renewal if the file has changed."""
        if self.source.file and await asyncio.to_thread(_read_state, self.source.file) != self._file_state:
            self._start()

    def renew_soon(self) -> None:
        self._start()

    async def aclose(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _find_valid(self) -> Credential | None:
        found = self._current
        if found is None or (found.expires_at is not None and found.expires_at <= self._clock()):
            return None
        return found

    async def _renew(self) -> None:
        """Wait for a renewal, which all who need it share. A waiter that is cancelled does not stop it."""
        await asyncio.wait([self._start()])

    def _start(self) -> "asyncio.Task[None]":
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._fetch())
        return self._renewal

    async def _fetch(self) -> None:
        source, now = self.source, self._clock()
        self._tried_at = now
        try:
            state = await asyncio.to_thread(_read_state, source.file) if source.file else ()
            output = await (run_command(source) if source.command else asyncio.to_thread(_read_file, source.file))
            self._accept(parse_credential(output, self._clock()))
            self._file_state = state
        except (OSError, ValueError) as error:
            self._refuse(_describe(error))
        finally:
            self._renewal = None

    def _accept(self, found: Credential) -> None:
        now = self._clock()
        if found.expires_at is None and self.source.command:
            found = Credential(found.value, now + self.source.life_seconds)
        if self._current is not None and self._current.value != found.value:
            self._former = self._current.value
        if self.error:
            log.info("%s works again", self.source.name)
        self._current, self.error, self._failed_in_a_row = found, "", 0
        self.renewals += 1
        self.due_at = math.inf if found.expires_at is None else find_due_time(now, found.expires_at, random.random())

    def _refuse(self, reason: str) -> None:
        self.error = reason
        self.failures += 1
        self.due_at = self._clock() + min(2.0**self._failed_in_a_row, _MAX_WAIT_SECONDS)
        self._failed_in_a_row = min(self._failed_in_a_row + 1, 10)
        self._throttled_log.warn(f"{self.source.name} gave no credential", reason)


def find_due_time(now: float, expires_at: float, chance: float) -> float:
    """Return when to renew what ends at a time. `chance` from 0 to 1 spreads the renewals of several gateways. One that
    has nearly ended, and is given again, is not asked for all the time."""
    life = expires_at - now
    due = now + life * _LIFE_PART * (0.95 + chance / 10)
    due = min(due, expires_at - _LEAST_LEFT_SECONDS) if life > _LONG_SECONDS else due
    return max(due, now + _LEAST_WAIT_SECONDS)


def _describe(error: OSError | ValueError) -> str:
    """Return why there is none, without paths."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)


def _read_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    return _check_size(data)


def _read_state(path: str) -> tuple[int, ...]:
    """Return what differs once a file has changed; nothing if it cannot be read."""
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_size(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"the output is longer than {MAX_BYTES // 1024} KB")
    return data


async def run_command(source: CredentialSource, seconds: float = COMMAND_SECONDS) -> bytes:
    """Return what the command prints. It, and what it has started, does not outlive the call. Raises OSError and
    ValueError."""
    transport, running = await asyncio.get_running_loop().subprocess_exec(
        _RunningCommand, *source.command, stdin=subprocess.DEVNULL, env=dict(source.environ), start_new_session=True
    )
    try:
        async with asyncio.timeout(seconds):
            await running.written
            await running.exited.wait()
    except TimeoutError:
        raise ValueError(f"the command did not end within {seconds:g} s") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        await running.exited.wait()
        transport.close()
        log.debug("%s wrote: %s", source.name, _redact(running.errors))
    if code := transport.get_returncode():
        raise ValueError(f"the command ended with the exit code {code}")
    return running.output


class _RunningCommand(asyncio.SubprocessProtocol):
    """Collects what a command writes. `asyncio.subprocess` would not do: its `wait` returns once all pipes are read to
    their end, which does not come where too much was written or a process of another group holds them."""

    def __init__(self) -> None:
        self.output = b""
        self.errors = b""
        """The end of what it writes to stderr."""
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when all output was read; raises ValueError if it is longer than is allowed."""
        self.exited = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self.errors = (self.errors + data)[-_MAX_SHOWN_ERRORS:]
        elif not self.written.done():
            try:
                self.output = _check_size(self.output + data)
            except ValueError as error:
                self.written.set_exception(error)

    def pipe_connection_lost(self, fd: int, _: Exception | None) -> None:
        if fd != _STDERR and not self.written.done():
            self.written.set_result(None)

    def process_exited(self) -> None:
        self.exited.set()


def _redact(errors: bytes) -> str:
    return Redactor().redact_text(SECRET_SHAPES.sub(SECRET, errors.decode("utf-8", "replace")))


class CredentialStore:
    """The credentials of all upstreams, by their sources. A source that stays keeps its credential over a reload."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._credentials: dict[CredentialSource, RenewingCredential] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __iter__(self) -> Iterator[RenewingCredential]:
        return iter([*self._credentials.values()])

    def get(self, source: CredentialSource) -> RenewingCredential:
        found = self._credentials.get(source)
        if found is None:
            found = self._credentials[source] = RenewingCredential(source, self._clock)
        return found

    def keep(self, sources: Iterable[CredentialSource]) -> None:
        """Forget all others. Requests in progress go on with theirs."""
        kept = frozenset(sources)
        self._credentials = {source: one for source, one in self._credentials.items() if source in kept}

    def start(self) -> None:
        """Begin to renew them, if there are any."""
        if self._credentials and self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def renew_all(self) -> None:
        for credential in self:
            credential.renew_soon()

    async def aclose(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for credential in self:
            await credential.aclose()

    async def _run(self) -> None:
        looked_at = -math.inf
        while True:
            for credential in self:
                credential.check()
            if time.monotonic() - looked_at >= FILE_SECONDS:
                looked_at = time.monotonic()
                for credential in self:
                    await credential.check_file()
            await asyncio.sleep(CHECK_SECONDS)
