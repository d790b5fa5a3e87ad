"""Credentials that are renewed: when, by whom, and what happens if they cannot be."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from app.upstream.credentials import (
    MAX_BYTES,
    CredentialSource,
    CredentialStore,
    CredentialUnavailable,
    RenewingCredential,
    find_due_time,
    run_command,
)

from tests.each_case import each_case

START = 1_800_000_000.0
ENVIRON = (("PATH", os.environ["PATH"]),)


class Counting:
    """A command that prints another token each time, and fails while `fails` is there; and a clock."""

    def __init__(self, folder: Path, output: str = "{number}") -> None:
        self.now = START
        self.fails = folder / "fails"
        self._count = folder / "count"
        text = f"n=$(cat {self._count} 2>/dev/null || echo 0); n=$((n+1)); echo $n > {self._count}; "
        text += f"test -e {self.fails} && exit 3; echo '{output}' | sed s/{{number}}/token-$n/"
        self.source = CredentialSource(("sh", "-c", text), environ=ENVIRON, life_seconds=100)
        self.credential = RenewingCredential(self.source, lambda: self.now)

    @property
    def runs(self) -> int:
        return int(self._count.read_text()) if self._count.exists() else 0


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_all_who_need_one_wait_for_the_same_renewal(counting: Counting) -> None:
    async def scenario() -> None:
        found = await asyncio.gather(*(counting.credential.get() for _ in range(20)))
        assert {one.value for one in found} == {"token-1"} and counting.runs == 1
        assert counting.credential.expires_at == START + 100
        assert (await counting.credential.get()).value == "token-1" and counting.runs == 1

    asyncio.run(scenario())


def test_a_waiter_that_leaves_stops_no_renewal(counting: Counting) -> None:
    async def scenario() -> None:
        first, second = (asyncio.ensure_future(counting.credential.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).value == "token-1" and counting.runs == 1

    asyncio.run(scenario())


def test_it_is_renewed_in_the_background_before_its_end_and_the_old_one_is_sent_meanwhile(counting: Counting) -> None:
    async def scenario() -> None:
        credential = counting.credential
        await credential.get()
        counting.now = START + 75
        credential.check()
        assert credential.renewals == 1
        counting.now = START + 85
        credential.check()
        assert (await credential.get()).value == "token-1", "no request waits for it"
        await settle(lambda: credential.renewals == 2)
        assert (await credential.get()).value == "token-2"
        assert credential.secrets == ("token-2", "token-1"), "a server may still quote the one before"

    asyncio.run(scenario())


@each_case(
    ("life", "chance", "after"),
    [(100, 0, 76), (100, 1, 84), (3600, 0.5, 2880), (7200, 0.5, 5760), (7200, 1, 6048), (3700, 1, 3100), (2, 0.5, 5)],
)
def test_it_is_due_after_four_fifths_of_its_life(life: float, chance: float, after: float) -> None:
    assert find_due_time(START, START + life, chance) == pytest.approx(START + after)


def test_one_that_cannot_be_renewed_is_sent_until_its_end_and_then_none(counting: Counting) -> None:
    async def scenario() -> None:
        credential = counting.credential
        await credential.get()
        counting.fails.touch()
        waits: list[float] = []
        counting.now = START + 90
        while len(waits) < 8:
            credential.check()
            await settle(lambda: credential.failures > len(waits))
            waits.append(credential.due_at - counting.now)
            if counting.now < START + 100:
                assert (await credential.get()).value == "token-1"
            counting.now = credential.due_at
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
        counting.now -= 0.5
        runs = counting.runs
        with pytest.raises(CredentialUnavailable, match=r"the command 'sh' gave none: .*exit code 3"):
            await credential.get()
        assert counting.runs == runs, "requests do not run the command again while it fails"
        counting.fails.unlink()
        counting.now += 0.5
        assert (await credential.get()).value == f"token-{runs + 1}"
        assert credential.error == ""

    asyncio.run(scenario())


def test_one_that_the_server_refuses_is_replaced_once(counting: Counting) -> None:
    async def scenario() -> None:
        credential = counting.credential
        first = await credential.get()
        assert await credential.replace_refused(first) is None, "it is too young"
        counting.now += 10
        both = await asyncio.gather(*(credential.replace_refused(first) for _ in range(2)))
        assert [one and one.value for one in both] == ["token-2"] * 2 and counting.runs == 2
        again = await credential.replace_refused(first)
        assert again is not None and again.value == "token-2", "it was replaced already"
        counting.fails.touch()
        counting.now += 10
        assert await credential.replace_refused(again) is None
        assert await credential.replace_refused(again) is None and counting.runs == 3

    asyncio.run(scenario())


def test_the_same_credential_again_is_no_replacement(tmp_path: Path) -> None:
    async def scenario() -> None:
        counting = Counting(tmp_path, "always")
        first = await counting.credential.get()
        counting.now += 11
        assert await counting.credential.replace_refused(first) is None and counting.runs == 2

    asyncio.run(scenario())


@each_case(
    ("command", "words"),
    [
        (["sh", "-c", "echo secret; exit 4"], "ended with the exit code 4"),
        (["sh", "-c", "true"], "the output is empty"),
        (["sh", "-c", f"yes secret | head -c {MAX_BYTES + 1}"], "longer than 64 KB"),
        (["sh", "-c", "yes secret"], "longer than 64 KB"),
        (["parley-has-no-such-program"], "No such file or directory"),
    ],
)
def test_a_command_that_gives_none_says_why_and_quotes_nothing(command: list[str], words: str) -> None:
    async def scenario() -> None:
        credential = RenewingCredential(CredentialSource(tuple(command), environ=ENVIRON))
        with pytest.raises(CredentialUnavailable, match=words) as caught:
            await credential.get()
        assert "secret" not in str(caught.value)

    asyncio.run(scenario())


def has_ended(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_command_that_hangs_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def scenario() -> None:
        source = CredentialSource(("sh", "-c", f"sleep 60 & echo $! > {pid}; wait"), environ=ENVIRON)
        with pytest.raises(ValueError, match=r"did not end within 0\.5 s"):
            await run_command(source, 0.5)

        await settle(lambda: has_ended(pid.read_text().strip()))

    asyncio.run(scenario())


def test_a_pipe_that_another_process_holds_open_does_not_outlast_the_limit(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def scenario() -> None:
        source = CredentialSource(("sh", "-c", f"setsid sleep 60 & echo $! > {pid}; echo token"), environ=ENVIRON)
        async with asyncio.timeout(20):
            with pytest.raises(ValueError, match=r"did not end within 0\.5 s"):
                await run_command(source, 0.5)

    try:
        asyncio.run(scenario())
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_command_gets_the_variables_that_it_is_given_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_SECRET", "hidden")
    source = CredentialSource((sys.executable, "-c", "import os; print(sorted(os.environ))"), environ=(("A", "b"),))
    output = asyncio.run(run_command(source)).decode()
    assert "'A'" in output and "PARLEY_SECRET" not in output


def test_what_a_command_writes_to_stderr_is_only_logged_for_debugging_and_redacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz123456"
    source = CredentialSource(("sh", "-c", f"echo token; echo 'used {key}' >&2"), "", ENVIRON)
    with caplog.at_level(logging.INFO, "parley.credentials"):
        asyncio.run(run_command(source))
        assert not caplog.records
    with caplog.at_level(logging.DEBUG, "parley.credentials"):
        asyncio.run(run_command(source))
    assert "used" in caplog.text and "sk-abcdefghij" not in caplog.text


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "token"

    async def scenario() -> None:
        credential = RenewingCredential(CredentialSource(file=str(path)))
        with pytest.raises(CredentialUnavailable, match="No such file"):
            await credential.get()
        path.write_text("one\n")
        await credential.check_file()
        await settle(lambda: credential.renewals == 1)
        assert (await credential.get()).value == "one" and credential.expires_at is None
        await credential.check_file()
        await asyncio.sleep(0.05)
        assert credential.renewals == 1
        other = tmp_path / "other"
        other.write_text("two!\n")
        other.replace(path)
        await credential.check_file()
        await settle(lambda: credential.renewals == 2)
        assert (await credential.get()).value == "two!"
        path.unlink()
        await credential.check_file()
        await settle(lambda: bool(credential.error))
        assert (await credential.get()).value == "two!", "it has no end"

    asyncio.run(scenario())


def run_store(scenario: Callable[[CredentialStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = CredentialStore()
        await scenario(store)
        await store.aclose()

    asyncio.run(run())


def test_upstreams_with_the_same_source_share_a_credential_over_a_reload(tmp_path: Path) -> None:
    async def scenario(store: CredentialStore) -> None:
        one, two = (CredentialSource(("echo", word), environ=ENVIRON) for word in ("a", "b"))
        first = store.get(one)
        assert store.get(CredentialSource(("echo", "a"), environ=ENVIRON)) is first and store.get(two) is not first
        store.start()
        await settle(lambda: all(credential.renewals for credential in store))
        store.keep([one])
        assert [*store] == [first]
        store.renew_all()
        await settle(lambda: first.renewals == 2)

    run_store(scenario)


def test_without_any_no_task_is_started() -> None:
    async def scenario(store: CredentialStore) -> None:
        before = asyncio.all_tasks()
        store.start()
        assert asyncio.all_tasks() == before

    run_store(scenario)
