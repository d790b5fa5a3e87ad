"""Hosts and origins that the gateway accepts."""

import pytest
from app.config.load import load

from tests.config.written_settings import mistakes


def test_hosts_and_origins_may_stand_in_a_variable_with_commas_between_them() -> None:
    server = load(
        {"PARLEY_SERVER__ALLOWED_HOSTS": "a.example, *.B.example,", "PARLEY_SERVER__ALLOWED_ORIGINS": "*"}
    ).server
    assert (server.allowed_hosts, server.allowed_origins) == (("a.example", "*.b.example"), ("*",))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("allowed_hosts", "http://a"),
        ("allowed_hosts", "a:8000"),
        ("allowed_hosts", "a.*"),
        ("allowed_hosts", "**"),
        ("allowed_origins", "a.example"),
        ("allowed_origins", "https://a.example/"),
        ("allowed_origins", "https://u@a.example"),
    ],
)
def test_what_is_no_host_or_origin_is_a_mistake(setting: str, value: str) -> None:
    assert [one.split(":")[0] for one in mistakes(f'[server]\n{setting} = ["{value}"]')] == [f"server.{setting}[0]"]
