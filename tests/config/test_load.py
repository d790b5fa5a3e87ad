"""Loading: the demo model, every mistake at once, proxies of the environment, and what is never shown."""

from pathlib import Path

import pytest
from app.config.credentials import list_credential_sources
from app.config.load import DEMO_TOOLS, load
from app.config.settings import Settings, SettingsError
from app.upstream.http.options import Proxy

from tests.config.written_settings import mistakes, written
from tests.each_case import each_case


def test_without_a_file_and_variables_the_demo_model_serves() -> None:
    settings = load({})
    assert settings == Settings.model_validate({"demo": True, "mcp_servers": DEMO_TOOLS})
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)


def test_settings_of_the_server_alone_leave_the_demo_model_on() -> None:
    assert written("[server]\nport = 9000").demo


def test_every_mistake_is_named_at_once() -> None:
    text = """
        default_model = "nobody"
        [server]
        port = "x"
        [upstreams.a]
        base_url = "ftp://a"
        kind = "odd"
        api_key = "${NO_KEY}"
        [models.m]
        upstreams = ["b", "a"]
        profile = { names = "some" }
    """
    found = mistakes(text, PARLEY_X="1", PARLEY_SERVER__WORKERS="0")
    assert [mistake.split(":")[0] for mistake in found] == [
        "upstreams.a.api_key",
        "PARLEY_X",
        "server.port",
        "server.workers (PARLEY_SERVER__WORKERS)",
        "upstreams.a.base_url",
        "upstreams.a.kind",
        "default_model",
        "models.m.upstreams[0]",
        "models.m.profile.names",
    ]


def test_the_proxies_of_the_environment_are_those_of_upstreams_without_one(tmp_path: Path) -> None:
    (tmp_path / "parley.toml").write_text(
        'passthrough = "a"\n[upstreams.a]\nbase_url = "https://a/v1"\n[upstreams.b]\nbase_url = "https://b/v1"\n'
        'proxy = "none"\n[upstreams.c]\nbase_url = "unix:/run/c.sock"\n[upstreams.d]\nbase_url = "https://d.corp/v1"\n'
    )
    settings = load({"HTTPS_PROXY": "http://u:p@proxy:3128", "NO_PROXY": "corp"}, tmp_path / "parley.toml")
    proxies = {name: row.connections.proxy for name, row in settings.upstreams.items()}
    assert proxies == {"a": Proxy("http", "proxy", 3128, b"Basic dTpw"), "b": None, "c": None, "d": None}
    assert "u:p" not in repr(settings)
    row = settings.upstreams["c"]
    assert (row.url, row.connections.socket_path) == ("http://localhost/v1", "/run/c.sock")


SECRETS = {"KEY": "s3cret-key", "TOKEN": "s3cret-token"}
WITH_SECRETS = (
    'passthrough = "a"\n[upstreams.a]\nbase_url = "http://a/v1"\napi_key = "${KEY}"\nheaders = {x="${TOKEN}"}\n'
)


def test_secrets_are_kept_and_never_shown() -> None:
    settings = written(WITH_SECRETS, **SECRETS)
    assert settings.upstreams["a"].headers["x"].get_secret_value() == "s3cret-token"
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.upstreams["a"].api_key)):
        assert "s3cret" not in shown


@pytest.mark.parametrize(
    "wrong",
    [
        WITH_SECRETS + "kind = 3",
        WITH_SECRETS.replace('base_url = "http://a/v1"', 'base_url = "http://u:s3cret@a/v1"'),
        WITH_SECRETS.replace('"${KEY}"', '["${KEY}"]'),
        WITH_SECRETS.replace('{x="${TOKEN}"}', '"${TOKEN}"'),
        WITH_SECRETS.replace("api_key", "apikey"),
        WITH_SECRETS + "[cache]\nurl = 'redis://u:s3cret@h:x/0'",
    ],
)
def test_a_mistake_beside_a_secret_does_not_show_it(wrong: str) -> None:
    assert "s3cret" not in "\n".join(mistakes(wrong, **SECRETS))


@each_case(
    ("lines", "words"),
    [
        ('api_key = "abcd"\napi_key_file = "x"', "has api_key and api_key_file: leave one of them"),
        ('api_key_command = ["a"]\napi_key_file = "x"', "has api_key_command and api_key_file"),
        ('api_key_env_vars = ["A"]', "which only an api_key_command gets"),
        ("api_key_command = []", "must not be empty"),
        (
            'api_key_command = ["parley-has-no-such-program", "x"]',
            "there is no program 'parley-has-no-such-program' in PATH",
        ),
    ],
)
def test_a_key_that_renews_comes_from_one_place_that_is_there(lines: str, words: str) -> None:
    (mistake,) = mistakes(f'passthrough = "a"\n[upstreams.a]\nbase_url = "http://a/v1"\n{lines}')
    assert mistake.startswith("upstreams.a") and words in mistake


def test_a_command_gets_what_every_program_needs_and_what_the_settings_name() -> None:
    settings = written(
        'passthrough = "a"\n[upstreams.a]\nbase_url = "http://a/v1"\napi_key_command = ["sh"]\napi_key_env_vars = ["B"]'
    )
    environ = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "A": "1", "B": "2"}
    (source,) = list_credential_sources(settings, environ).values()
    assert dict(source.environ) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "B": "2"}


def test_a_file_of_an_issuers_keys_is_beside_the_configuration_that_names_it(tmp_path: Path) -> None:
    config = tmp_path / "etc/parley.toml"
    config.parent.mkdir()
    config.write_text('[jwt.corp]\nissuer = "corp"\naudience = "parley"\njwks_file = "keys.json"\n')
    with pytest.raises(SettingsError) as raised:
        load({}, config)
    place = f"{tmp_path}/etc/keys.json"
    assert raised.value.mistakes == [f"jwt.corp.jwks_file: {place} cannot be read (No such file or directory)"]
    with pytest.raises(SettingsError) as raised:
        load({"PARLEY_JWT__CORP__JWKS_FILE": "keys.json"}, config)
    assert f"{Path('keys.json').absolute()} cannot be read" in raised.value.mistakes[0]


def test_issuers_that_are_no_section_are_a_mistake(tmp_path: Path) -> None:
    for text in ("jwt = 3", "[jwt]\ncorp = 3"):
        assert mistakes(text)
