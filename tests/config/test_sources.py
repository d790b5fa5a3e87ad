"""Which source of a setting wins, and the mistakes in files and variables."""

from pathlib import Path

import pytest
from app.config.load import load
from app.config.settings import SettingsError
from app.config.tables.server import Server
from app.config.tables.upstreams import Upstream

from tests.certificates import certificate
from tests.config.written_settings import ONE_MODEL, mistakes, written
from tests.each_case import each_case


def test_the_working_folders_file_is_read() -> None:
    assert written("[server]\nport = 9000").server.port == 9000


def test_a_named_file_is_read_instead(empty_folder: Path) -> None:
    (empty_folder / "other.toml").write_text("[server]\nport = 9001")
    assert written("[server]\nport = 9000", PARLEY_CONFIG="other.toml").server.port == 9001
    assert load({"PARLEY_CONFIG": "missing.toml"}, Path("other.toml")).server.port == 9001


def test_a_variable_wins_over_the_file() -> None:
    assert written("[server]\nport = 9000\nworkers = 2", PARLEY_SERVER__PORT="9002").server == Server(
        port=9002, workers=2
    )


def test_variables_alone_configure_an_upstream_and_a_default() -> None:
    settings = load(
        {
            "PARLEY_UPSTREAMS__BOX__BASE_URL": "http://box/v1/",
            "PARLEY_UPSTREAMS__BOX__IDLE_SECONDS": "7.5",
            "PARLEY_PASSTHROUGH": "box",
            "PARLEY_DEFAULT_MODEL": "any",
        }
    )
    assert settings.upstreams == {"box": Upstream(base_url="http://box/v1", idle_seconds=7.5)}
    assert (settings.passthrough, settings.default_model, settings.demo) == ("box", "any", False)


def test_every_scalar_can_come_from_a_variable_whatever_its_type() -> None:
    settings = written(
        ONE_MODEL,
        PARLEY_MODELS__M__DEFAULTS__TEMPERATURE="0.5",
        PARLEY_MODELS__M__DEFAULTS__ENABLE_THINKING="true",
        PARLEY_MODELS__M__DEFAULTS__MAX_TOKENS="7",
        PARLEY_MODELS__M__PROFILE__TEXT_PARTS="true",
        PARLEY_MODELS__M__MAX_RETRIES="2",
        PARLEY_DEMO="false",
    )
    assert settings.models["m"].defaults.given_params() == {
        "temperature": 0.5,
        "max_tokens": 7,
        "enable_thinking": True,
    }
    assert settings.models["m"].max_retries == 2
    assert settings.profile("m", "local").text_parts is True


@pytest.mark.parametrize("name", ["my-box", "My.Box", "my_box", "MY BOX"])
def test_names_match_variables_without_case_and_punctuation(name: str) -> None:
    text = f'passthrough = "{name}"\n[upstreams."{name}"]\nbase_url = "http://a/v1"'
    settings = written(text, PARLEY_UPSTREAMS__MY_BOX__BASE_URL="http://b/v1")
    assert {key: row.base_url for key, row in settings.upstreams.items()} == {name: "http://b/v1"}


def test_the_name_as_it_is_wins_over_one_that_looks_alike() -> None:
    text = 'passthrough = "a_b"\n[upstreams.a-b]\nbase_url = "http://a/v1"\n[upstreams.a_b]\nbase_url = "http://b/v1"'
    settings = written(text, PARLEY_UPSTREAMS__A_B__BASE_URL="http://c/v1")
    assert settings.upstreams["a_b"].base_url == "http://c/v1"


def test_one_variable_puts_a_server_behind_every_model_name() -> None:
    settings = load(
        {"PARLEY_UPSTREAM_URL": "http://a/v1", "PARLEY_UPSTREAM_API_KEY": "k", "PARLEY_UPSTREAM_KIND": "vllm"}
    )
    assert settings.passthrough == "default"
    assert settings.upstreams["default"].kind == "vllm"
    assert settings.upstreams["default"].api_key is not None
    assert settings.upstreams["default"].api_key.get_secret_value() == "k"


def test_the_shorthand_leaves_the_files_models_and_pass_through() -> None:
    settings = written('passthrough = "local"\n' + ONE_MODEL, PARLEY_UPSTREAM_URL="http://a/v1")
    assert (set(settings.upstreams), settings.passthrough) == ({"local", "default"}, "local")


def test_variables_are_put_into_strings_anywhere_and_taken_as_they_are() -> None:
    text = 'passthrough = "x"\n[upstreams.x]\nbase_url = "http://${HOST}:${PORT}/v1"\nheaders = { a = "${A}${A}" }'
    settings = written(text, HOST="h", PORT="1", A="${HOST}")
    assert settings.upstreams["x"].base_url == "http://h:1/v1"
    assert settings.upstreams["x"].headers["a"].get_secret_value() == "${HOST}${HOST}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PARLEY_URL", "http://127.0.0.1:8000"),
        ("PARLEY_API_KEY", "k"),
        ("PARLEY_SERVICE_HOST", "10.0.0.1"),
        ("PARLEY_SERVICE_PORT_HTTP", "80"),
        ("PARLEY_PORT", "tcp://10.0.0.1:80"),
        ("PARLEY_CONFIG_DIR", ""),
        ("PARLEY_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("PARLEYS_SERVER__PORT", "x"),
    ],
)
def test_variables_that_are_no_settings_are_left_alone(variable: str, value: str) -> None:
    assert load({variable: value}) == load({})


@pytest.mark.parametrize(
    ("variable", "value", "mistake"),
    [
        ("PARLEY_PORT", "9", "PARLEY_PORT: there is no setting with this name; did you mean `PARLEY_SERVER__PORT`?"),
        ("PARLEY_ADMIN_KEY", "k", "there is no setting with this name; did you mean `PARLEY_SERVER__ADMIN_KEY`?"),
        ("PARLEY_SEVER__PORT", "9", "there is no setting with this name; did you mean `PARLEY_SERVER__PORT`?"),
        (
            "PARLEY_UPSTREAM_ULR",
            "http://h/v1",
            "PARLEY_UPSTREAM_ULR: there is no setting with this name; did you mean `PARLEY_UPSTREAM_URL`?",
        ),
        ("PARLEY_DRAINING", "9", "PARLEY_DRAINING: there is no setting with this name"),
        ("PARLEY_SERVER__PROT", "9", "server.prot (PARLEY_SERVER__PROT): is not a known key; did you mean `port`?"),
        ("PARLEY_SERVER__PORT__X", "9", "PARLEY_SERVER__PORT__X: server.port is not a section"),
        ("PARLEY_CONFIG", "nowhere.toml", "nowhere.toml: cannot be read (No such file or directory)"),
        ("PARLEY_CONFIG", ".", ".: cannot be read (Is a directory)"),
    ],
)
def test_a_mistake_of_the_environment_names_its_variable(variable: str, value: str, mistake: str) -> None:
    (found,) = mistakes("[server]\nport = 1", **{variable: value})
    assert found.endswith(mistake)


def test_a_wrong_value_of_a_shorthand_names_the_variable() -> None:
    (mistake,) = mistakes("", PARLEY_UPSTREAM_URL="localhost:8000")
    assert mistake.startswith("upstreams.default.base_url (PARLEY_UPSTREAM_URL): must be an http ")


def test_secrets_may_be_in_files(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("sk-of-the-administrator\n")
    (tmp_path / "keys").write_text("alice:sk-0123456789abcdef\r\n")
    (tmp_path / "model").write_text("sk-model")
    (tmp_path / "parley.toml").write_text(
        '[upstreams.a]\nbase_url = "http://a/v1"\napi_key = "${MODEL_KEY}"\n[models.m]\nupstreams = ["a"]\n'
    )
    environ = {
        "PARLEY_SERVER__ADMIN_KEY_FILE": str(tmp_path / "admin"),
        "PARLEY_API_KEYS_FILE": str(tmp_path / "keys"),
        "MODEL_KEY_FILE": str(tmp_path / "model"),
    }
    settings = load(environ, tmp_path / "parley.toml")
    assert (
        settings.server.admin_key is not None
        and settings.server.admin_key.get_secret_value() == "sk-of-the-administrator"
    )
    assert [*settings.keys] == ["alice"]
    key = settings.upstreams["a"].api_key
    assert key is not None and key.get_secret_value() == "sk-model"


@each_case(
    ("environ", "mistake"),
    [
        ({"PARLEY_SERVER__ADMIN_KEY_FILE": "/nowhere"}, "cannot be read (No such file or directory)"),
        ({"PARLEY_SERVER__ADMIN_KEY_FILE": "/"}, "cannot be read (Is a directory)"),
        ({"PARLEY_SERVER__ADMIN_KEY_FILE": "/dev/zero"}, "it is larger than 1048576 bytes"),
        (
            {"PARLEY_SERVER__ADMIN_KEY": "a", "PARLEY_SERVER__ADMIN_KEY_FILE": "/nowhere"},
            "PARLEY_SERVER__ADMIN_KEY is set too; remove one of them",
        ),
    ],
)
def test_a_file_of_a_variable_that_cannot_be_used_is_a_mistake(environ: dict[str, str], mistake: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(environ, None)
    assert raised.value.mistakes[0].startswith("PARLEY_SERVER__ADMIN_KEY_FILE: ") and mistake in str(raised.value)


def test_a_setting_that_is_a_path_is_not_read_as_a_value(tmp_path: Path) -> None:
    certificate(tmp_path, "DNS:localhost")
    file = str(tmp_path / "server.pem")
    environ = {"PARLEY_UPSTREAM_URL": "https://a/v1", "PARLEY_UPSTREAMS__DEFAULT__CA_FILE": file}
    assert load(environ).upstreams["default"].ca_file == file
