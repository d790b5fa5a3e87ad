"""`parley keys` with a running gateway."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from app.cli import USAGE_ERROR, main

from tests.clean_environment import clean_environment
from tests.terminal.gateway_process import running_gateway

ADMIN = "sk-of-the-administrator"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("state")
    settings = {"PARLEY_SERVER__ADMIN_KEY": ADMIN, "PARLEY_STATE__URL": f"sqlite:///{folder}/state.db"}
    with running_gateway(settings) as url:
        yield url


@pytest.fixture(autouse=True)
def environment(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment(PARLEY_API_KEY=ADMIN))


@pytest.fixture
def keys(url: str, capsys: pytest.CaptureFixture[str]) -> "Keys":
    return Keys(url, capsys)


class Keys:
    """Runs `parley keys` with the address of the gateway."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The status, the output and the errors."""
        status = main(["keys", *arguments, "--url", self._url])
        out, err = self._capsys.readouterr()
        return status, out, err

    def status_of(self, key: str) -> int:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.get(f"{self._url}/v1/models", headers=headers, trust_env=False).status_code


def read_secret(out: str) -> str:
    return next(line.strip() for line in out.splitlines() if line.startswith("  parley-"))


def test_a_key_is_created_listed_rotated_and_revoked(keys: Keys) -> None:
    more = (
        "--model",
        "q*",
        "--note",
        "of\na laptop",
        "--limit",
        "requests_per_minute=60",
        "--limit",
        "spend_per_day=0.5",
    )
    status, out, _ = keys.run("create", "alice", *more, "--expires", "2099-01-01")
    first = read_secret(out)
    assert (status, keys.status_of(first)) == (0, 200)
    _, out, _ = keys.run("list")
    header, row = out.splitlines()
    assert header.split()[:5] == ["NAME", "STATE", "SOURCE", "TEAM", "MODELS"]
    assert [cell.strip() for cell in row.split("  ") if cell] == [
        *("alice", "active", "stored", "-", "q*", "requests_per_minute=60, spend_per_day=0.5"),
        *("2099-01-01T00:00:00Z", "-", "of\u240aa laptop"),
    ]
    _, out, _ = keys.run("rotate", "alice", "--overlap", "60")
    second = read_secret(out)
    assert "is accepted until" in out and [keys.status_of(one) for one in (first, second)] == [200, 200]
    _, out, _ = keys.run("rotate", "alice", "--json")
    third = json.loads(out)["key"]
    assert [keys.status_of(one) for one in (first, second, third)] == [401, 401, 200]
    assert keys.run("revoke", "alice", "--yes")[:2] == (0, "alice is revoked\n")
    assert keys.status_of(third) == 401
    assert len(keys.run("list")[1].splitlines()) == 1
    listed = json.loads(keys.run("list", "--revoked", "--json")[1])
    assert [(row["name"], row["state"]) for row in listed] == [("alice", "revoked")]


def test_a_key_is_created_with_end_users(keys: Keys) -> None:
    users = ("--users", "header:x-user", "--users-required", "--hash-users", "--user-limit", "requests_per_minute=2")
    created = json.loads(keys.run("create", "users", *users, "--json")[1])
    names = ("users", "users_required", "hash_users", "limits_per_user")
    assert [created[name] for name in names[:3]] == ["header:x-user", True, True]
    assert {name: value for name, value in created["limits_per_user"].items() if value is not None} == {
        "requests_per_minute": 2
    }
    status, _, err = keys.run("create", "more", "--user-limit", "requests_per_minute=2")
    assert status == 1 and "users" in err
    status, _, err = keys.run("create", "more", "--user-limit", "2")
    assert status == USAGE_ERROR and "--user-limit: must be NAME=NUMBER" in err
    keys.run("revoke", "users", "--yes")


def test_what_the_gateway_refuses_is_a_line_of_error(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys.run("rotate", "b?b") == (1, "", "parley: not_found: there is no key 'b?b'\n")
    status, _, err = keys.run("create", "carol", "--team", "none")
    assert status == 1 and "there is no team 'none'" in err
    status, _, err = keys.run("create", "carol", "--limit", "requests=many")
    assert status == USAGE_ERROR and "must be NAME=NUMBER" in err
    status, _, err = keys.run("revoke", "carol")
    assert status == USAGE_ERROR and "use --yes" in err
    monkeypatch.setitem(os.environ, "PARLEY_API_KEY", "wrong")
    status, out, err = keys.run("list")
    assert (status, out) == (1, "") and err.startswith("parley: invalid_api_key: ")
