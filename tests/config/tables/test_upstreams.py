"""Addresses and keys of model servers."""

import pytest
from app.config.load import load
from app.config.settings import SettingsError

from tests.config.written_settings import mistakes, written
from tests.each_case import each_case


@pytest.mark.parametrize("place", ["h:65535", "h:1", "[::1]:8000", "127.0.0.1", "b\u00fccher.example", "a_b.local"])
def test_a_host_that_can_exist_is_taken(place: str) -> None:
    assert load({"PARLEY_UPSTREAM_URL": f"http://{place}/v1"}).upstreams["default"].base_url == f"http://{place}/v1"


def test_a_slash_at_the_end_of_a_variable_is_not_doubled() -> None:
    proxied = load({"PARLEY_UPSTREAM_URL": "http://proxy/https://h.example//v1"}).upstreams["default"]
    assert proxied.base_url == "http://proxy/https://h.example/v1"
    text = '[upstreams.a]\nbase_url = "${HOST}/openai/v1?x=//"\n[models.m]\nupstreams = ["a"]\n'
    settings = written(text, HOST="https://h.example/")
    assert settings.upstreams["a"].base_url == "https://h.example/openai/v1?x=//"


@each_case(
    ("url", "mistake"),
    [
        ("unix:run/x.sock", "must name the path of a socket"),
        ("unix:/" + "x" * 200, "at most 107 bytes"),
    ],
)
def test_what_is_no_unix_socket(url: str, mistake: str) -> None:
    with pytest.raises(SettingsError, match=mistake):
        load({"PARLEY_UPSTREAM_URL": url})


@pytest.mark.parametrize("key", ["k\\r\\nx-evil: 1", "schl\u00fcssel", " "])
def test_a_key_that_is_no_header_value_is_a_mistake(key: str) -> None:
    text = f'[upstreams.a]\nbase_url = "http://h/v1"\napi_key = "{key}"\n[models.m]\nupstreams = ["a"]\n'
    assert [one.split(":")[0] for one in mistakes(text)] == ["upstreams.a.api_key"]


def test_a_key_may_end_with_a_line_break() -> None:
    settings = written('[upstreams.a]\nbase_url = "http://h/v1"\napi_key = "k\\n"\n[models.m]\nupstreams = ["a"]\n')
    key = settings.upstreams["a"].api_key
    assert key is not None
    assert key.get_secret_value() == "k"
