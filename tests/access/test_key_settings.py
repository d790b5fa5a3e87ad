"""Keys in the configuration and on the command line, and the refusal to serve a network without them."""

import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from app.access import hash_key
from app.cli import main
from app.config.load import load

from tests.config.written_settings import mistakes, written
from tests.fork_server import forked_parley

HASH = hash_key("key-of-alice-0001")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_keys_only_loopback_addresses_are_served() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert load({"PARLEY_SERVER__HOST": host}).server.host == host
    for host in ("0.0.0.0", "::", "", "10.0.0.7", "gateway.example.com"):
        (mistake,) = mistakes(f"[server]\nhost = '{host}'")
        assert mistake.startswith(f"server.host: '{host}' is not a loopback address")
        assert "`parley keys new NAME`" in mistake and "server.allow_anonymous = true" in mistake
        assert load({"PARLEY_SERVER__HOST": host, "PARLEY_API_KEYS": "a:0123456789abcdef"}).keys
        assert load({"PARLEY_SERVER__HOST": host, "PARLEY_SERVER__ALLOW_ANONYMOUS": "true"}).server.allow_anonymous


def test_the_gateway_does_not_start_on_a_network_without_keys() -> None:
    command = [*forked_parley(), "serve", "--host", "0.0.0.0", "--port", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env={}, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert "`parley keys new NAME`" in ran.stderr and "allow_anonymous = true" in ran.stderr


def test_keys_of_the_variable_add_to_those_of_the_file_and_only_hashes_are_kept() -> None:
    text = "[keys.Alice]\nsha256 = '" + "0" * 64 + "'\nmodels = ['qwen*']\n"
    value = f"alice:sk-a:b/0123456789, bob:sha256:{HASH.upper()},"
    settings = written(text, PARLEY_API_KEYS=value)
    assert {name: row.sha256 for name, row in settings.keys.items()} == {
        "Alice": hash_key("sk-a:b/0123456789"),
        "bob": HASH,
    }
    assert settings.keys["Alice"].models == ("qwen*",)
    assert "0123456789" not in repr(settings)
    assert written("", PARLEY_API_KEYS="").keys == {}


def test_a_mistake_of_a_key_never_repeats_it() -> None:
    for value, words in [
        ("sk-0123456789abcdef", "PARLEY_API_KEYS: entry 1 must be NAME:KEY or NAME:sha256:HASH"),
        (f"a:sha256:{HASH},:sk-0123456789abcdef", "PARLEY_API_KEYS: entry 2 must be"),
        ("alice:sk-short", "PARLEY_API_KEYS: the key of 'alice' is too short to be safe: use at least 16 characters"),
        ("alice:sha256:sk-0123456789", "keys.alice.sha256 (PARLEY_API_KEYS): must be the SHA-256 of the key"),
        (f"a b:sha256:{HASH}", "must be 1 to 64 letters, digits and ._@+-"),
        ("me:sk-0123456789abcdef,me:sk-fedcba9876543210", "PARLEY_API_KEYS: entry 2 is a second key of 'me'"),
        ("a-b:sk-0123456789abcdef, a_b:sk-fedcba9876543210", "PARLEY_API_KEYS: entry 2 is a second key of 'a-b'"),
        (f"a:sha256:{HASH},b:sha256:{HASH}", "keys.b.sha256: the key 'a' has the same; use another key"),
    ]:
        text = "\n".join(mistakes("", PARLEY_API_KEYS=value))
        assert words in text, text
        assert "sk-" not in text
    (mistake,) = mistakes("[keys.a]\nsha256 = 'sk-0123456789'")
    assert "never the key itself" in mistake and "sk-" not in mistake
    (mistake,) = mistakes("[keys.a]\nadmin = true")
    assert mistake.startswith("keys.a.sha256")


def test_a_key_expires_at_the_begin_of_a_day_in_utc_or_at_a_time() -> None:
    for value, expected in [
        ("2027-01-01", datetime(2027, 1, 1, tzinfo=UTC)),
        ("'2027-01-01'", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01T12:30:00", datetime(2027, 1, 1, 12, 30, tzinfo=UTC)),
        ("2027-01-01T12:30:00+02:00", datetime(2027, 1, 1, 10, 30, tzinfo=UTC)),
    ]:
        assert written(f"[keys.a]\nsha256 = '{HASH}'\nexpires = {value}").keys["a"].expires == expected
    for value in ("'soon'", "20270101", "1798761600.0", "true", "10:00:00", "'9999-12-31T23:59-05:00'"):
        (mistake,) = mistakes(f"[keys.a]\nsha256 = '{HASH}'\nexpires = {value}")
        assert mistake == "keys.a.expires: must be a date such as 2027-01-01, or a date and time", value


def test_stored_replies_belong_to_one_caller_as_soon_as_there_are_keys() -> None:
    assert not load({}).separate_callers
    assert load({"PARLEY_CACHE__SCOPE": "caller"}).separate_callers
    assert load({"PARLEY_API_KEYS": "a:0123456789abcdef"}).separate_callers
    assert not load({"PARLEY_API_KEYS": "a:0123456789abcdef", "PARLEY_CACHE__SCOPE": "shared"}).separate_callers


def test_a_proxy_that_is_no_address_is_a_mistake() -> None:
    assert load({"PARLEY_SERVER__TRUSTED_PROXIES": "10.0.0.7, 10.1.0.0/16"}).server.trusted_proxies == (
        "10.0.0.7",
        "10.1.0.0/16",
    )
    (mistake,) = mistakes("[server]\ntrusted_proxies = ['proxy.example.com']")
    assert mistake == "server.trusted_proxies[0]: must be an address or a network, such as 10.0.0.7 or 10.1.0.0/16"


def test_a_new_key_is_shown_with_lines_that_make_the_gateway_accept_it(capsys: pytest.CaptureFixture[str]) -> None:
    for name, options in [
        ("alice", []),
        ("a.b@example.com", ["--model", "qwen*", "--model", "gpt", "--expires", "2099-01-01", "--admin"]),
    ]:
        assert main(["keys", "new", name, *options]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        key = next(line.strip() for line in out.splitlines() if line.startswith("  parley-"))
        section = out[out.index("[keys.") :].split("\n\n")[0]
        row = written(section).keys[name]
        assert row.sha256 == hash_key(key) and out.count(key) == 1
        assert (row.models, row.admin, row.expires is not None) == (
            (("qwen*", "gpt"), True, True) if options else (("*",), False, False)
        )
        variable = [line.rpartition("=")[2] for line in out.splitlines() if "PARLEY_API_KEYS=" in line]
        assert [load({"PARLEY_API_KEYS": value}).keys[name].sha256 for value in variable] == (
            [] if options else [row.sha256]
        )
        assert tomllib.loads(section)["keys"]


@pytest.mark.parametrize(
    ("given", "expires"),
    [
        ("2099-01-01", datetime(2099, 1, 1, tzinfo=UTC)),
        ("20990101", datetime(2099, 1, 1, tzinfo=UTC)),
        ("2099-W01-4", datetime(2099, 1, 1, tzinfo=UTC)),
        ("2099-01-01T10", datetime(2099, 1, 1, 10, tzinfo=UTC)),
        ("2099-01-01T10:00", datetime(2099, 1, 1, 10, tzinfo=UTC)),
        ("2099-01-01T10:00:30.5-05:00", datetime(2099, 1, 1, 15, 0, 30, 500_000, UTC)),
        ("2099-01-01T10:00:00+00:00:30", datetime(2099, 1, 1, 9, 59, 30, tzinfo=UTC)),
    ],
)
def test_a_new_key_expires_at_the_given_time_in_every_form(
    given: str, expires: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "a", "--expires", given]) == 0
    section = capsys.readouterr().out.partition("[keys.a]")[2]
    assert written(f"[keys.a]{section}").keys["a"].expires == expires


def test_a_new_key_does_not_expire_in_the_past(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "a", "--expires", "2020-01-01"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "--expires: 2020-01-01T00:00:00+00:00 is in the past" in err


def test_a_new_key_needs_a_usable_name_and_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "a b", "--expires", "soon"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "must be 1 to 64 letters" in err and "must be a date" in err
