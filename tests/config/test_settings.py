"""Configuration: which source wins, the message for every mistake, and what is never shown."""

import json
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app.config.load import DEMO_TOOLS, load
from app.config.settings import Settings, SettingsError
from app.config.tables.attachments import Documents, Fetch
from app.config.tables.callers import JwtIssuer, Key, Team
from app.config.tables.limits import LimitSettings
from app.config.tables.models import Model
from app.config.tables.prices import PricesSettings
from app.config.tables.server import MetricsSettings, Server, Tracing
from app.config.tables.storage import CacheSettings, ReasoningSettings, ResponsesSettings, StateSettings, UsageSettings
from app.config.tables.tools import McpServer, ToolsSettings
from app.config.tables.upstreams import Upstream
from app.upstream.http.options import Proxy
from app.usage.meter import Price
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.certificates import certificate
from tests.each_case import each_case

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text()
LOCAL = '[upstreams.local]\nbase_url = "http://127.0.0.1:1/v1"\n'
ONE_MODEL = LOCAL + '[models.m]\nupstreams = ["local"]\n'


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str, **environ: str) -> Settings:
    Path("parley.toml").write_text(text, encoding="utf-8")
    return load(environ)


def mistakes(text: str, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        written(text, **environ)
    assert str(caught.value) == "\n".join(caught.value.mistakes)
    return caught.value.mistakes


# -- where settings come from ---------------------------------------------------------


def test_without_a_file_and_variables_the_demo_model_serves() -> None:
    settings = load({})
    assert settings == Settings.model_validate({"demo": True, "mcp_servers": DEMO_TOOLS})
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)


def test_settings_of_the_server_alone_leave_the_demo_model_on() -> None:
    assert written("[server]\nport = 9000").demo


def test_the_working_folders_file_is_read() -> None:
    assert written("[server]\nport = 9000").server.port == 9000


def test_a_named_file_is_read_instead(empty_folder: Path) -> None:
    (empty_folder / "other.toml").write_text("[server]\nport = 9001")
    assert written("[server]\nport = 9000", PARLEY_CONFIG="other.toml").server.port == 9001
    assert load({"PARLEY_CONFIG": "missing.toml"}, Path("other.toml")).server.port == 9001


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


def cache_file(environ: dict[str, str], path: Path | None = None) -> Path:
    """The file of the default cache."""
    url = load(environ, path).cache.url
    assert url is not None
    return Path(url.removeprefix("sqlite:///"))


def test_by_default_the_cache_is_a_file_of_the_user(empty_folder: Path) -> None:
    environ = {"HOME": str(empty_folder), "XDG_CACHE_HOME": "relative is not allowed"}
    assert cache_file(environ).parent == empty_folder / ".cache/parley"
    environ["XDG_CACHE_HOME"] = str(empty_folder / "of mine")
    assert cache_file(environ).parent == empty_folder / "of%20mine/parley"
    assert load({**environ, "PARLEY_CACHE__URL": "null:"}).cache.url == "null:"


def test_each_configuration_has_a_cache_file_of_its_own(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(empty_folder)}
    one, other = empty_folder / "one", empty_folder / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "parley.toml").touch()
        (folder / "my test!.toml").touch()
    files = {
        cache_file(environ, folder / name).name for folder in (one, other) for name in ("parley.toml", "my test!.toml")
    }
    readable = sorted(name.rsplit("-", 1)[0] for name in files)
    assert readable == ["one", "one-my-test", "other", "other-my-test"]
    monkeypatch.chdir(one)
    there = cache_file(environ)
    assert there == cache_file(environ, one / "parley.toml") == cache_file(environ, Path("parley.toml"))
    assert there == cache_file({**environ, "PARLEY_CONFIG": str(one / "parley.toml")})
    (one / "parley.toml").unlink()
    assert cache_file(environ) == there, "without a file, by the folder"


def test_by_default_usage_is_kept_in_a_file_that_is_not_in_the_cache_folder(empty_folder: Path) -> None:
    environ = {"HOME": str(empty_folder)}
    url = load(environ).usage.url
    assert url is not None
    assert Path(url.removeprefix("sqlite:///")).parent == empty_folder / ".local/share/parley"
    one_folder = {"XDG_DATA_HOME": str(empty_folder), "XDG_CACHE_HOME": str(empty_folder)}
    assert load(one_folder).usage.url != load(one_folder).cache.url
    assert load({**environ, "PARLEY_USAGE__URL": "null:"}).usage.url == "null:"
    assert load({"HOME": ""}).usage.url is None


def test_prices_of_the_servers_cache_are_those_of_input_unless_they_are_set() -> None:
    text = """
        [upstreams.box]
        base_url = "http://127.0.0.1:1/v1"
        [models.m]
        upstreams = ["box"]
        price = { input = 2.5, output = 10, cached_input = 1.25 }
    """
    price = written(text).models["m"].price
    assert price is not None
    assert price.to_price() == Price(input=2.5, output=10, cached_input=1.25, cache_write=2.5)


def test_where_the_working_folder_is_gone_the_cache_is_in_memory(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = empty_folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load({"HOME": str(empty_folder)}).cache.url is None


def test_without_a_place_for_a_file_the_cache_is_in_memory(empty_folder: Path) -> None:
    (empty_folder / "file").touch()
    for environ in ({}, {"HOME": ""}, {"HOME": str(empty_folder / "file")}):
        assert load(environ).cache.url is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PARLEY_URL", "http://127.0.0.1:8000"),
        ("PARLEY_API_KEY", "k"),
        ("PARLEY_SERVICE_HOST", "10.0.0.1"),
        ("PARLEY_SERVICE_PORT_HTTP", "80"),
        ("PARLEY_PORT", "tcp://10.0.0.1:80"),
        ("PARLEY_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("PARLEYS_SERVER__PORT", "x"),
    ],
)
def test_variables_that_are_no_settings_are_left_alone(variable: str, value: str) -> None:
    assert load({variable: value}) == load({})


def test_an_upstream_of_a_model_is_a_name_or_a_table_and_a_variable_holds_names() -> None:
    rows = """
        [upstreams]
        a.base_url = "http://a.test/v1"
        b.base_url = "http://b.test/v1"
        [models.m]
        upstreams = ["a", { name = "b", weight = 3, priority = 2 }]
        [models.n]
        upstreams = ["a"]
    """
    shown = [(one.name, one.weight, one.priority) for one in written(rows).models["m"].upstreams]
    assert shown == [("a", 1, 1), ("b", 3, 2)]
    changed = load({"PARLEY_MODELS__M__UPSTREAMS": "b, a", "PARLEY_MODELS__M__FALLBACKS": "n"}).models["m"]
    assert ([one.name for one in changed.upstreams], changed.fallbacks) == (["b", "a"], ("n",))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load({}).server.port = 1


# -- mistakes ---------------------------------------------------------------------------


@each_case(
    ("text", "start"),
    [
        ("[server]\nport = 70000", "server.port: "),
        ("[server]\nport = 'x'", "server.port: "),
        ("[server]\nprot = 1", "server.prot: is not a known key; did you mean `port`?"),
        ("[sever]\nport = 1", "sever: is not a known key; did you mean `server`?"),
        ("server = 3", "server: "),
        ("[server]\nlog_level = 'loud'", "server.log_level: must be one of debug, info, warning, error"),
        ("[server]\nheartbeat_seconds = 0", "server.heartbeat_seconds: "),
        ("[server]\nheartbeat_seconds = nan", "server.heartbeat_seconds: "),
        ("[server]\nmax_nesting = 1000", "server.max_nesting: "),
        (
            "[server]\nmax_body_bytes = 2_000_000_000",
            "server.max_request_memory_bytes: must be at least twice server.max_body_bytes, so at least 4000000000, ",
        ),
        ("[server]\nport = 9000\n[metrics]\nport = 9000", "metrics.port: 9000 is server.port too; use another port"),
        ("[metrics]\nport = 8000", "metrics.port: 8000 is server.port too; use another port"),
        ("upstreams = 3", "upstreams: "),
        ("[upstreams]\nlocal = 3", "upstreams.local: "),
        ("[cache]\nurl = 'redis'", "cache.url: must be a URL, such as sqlite:////data/cache.db, "),
        ("[cache]\nurl = 'mysql://h/d'", "cache.url: must begin with sqlite, redis, rediss, memory or null"),
        ("[cache]\nmax_bytes = 1", "cache.max_bytes: "),
        ("[cache]\nscope = 'all'", "cache.scope: must be one of auto, shared, caller"),
        ("passthrough = 'a'\n[upstreams.a]", "upstreams.a.base_url: is required"),
        ("passthrough = 'a'\n[upstreams.a]\nbase_url = 'localhost'", "upstreams.a.base_url: must be an http "),
        (
            "passthrough = 'a'\n[upstreams.a]\nbase_url = 'http://x/v1?a=1#b'",
            "upstreams.a.base_url: must have a query ",
        ),
        ("passthrough = 'a'\n[upstreams.a]\nbase_url = 'http://u:p@x/v1'", "upstreams.a.base_url: must not contain a "),
        *(
            (f"passthrough = 'a'\n[upstreams.a]\nbase_url = 'http://{place}/v1'", f"upstreams.a.base_url: {mistake}")
            for place, mistake in (
                ("a..b", "must name a valid host"),
                ("a" * 64, "must name a valid host"),
                ("\u00fc" * 64, "must name a valid host"),
                ("xn--\u00fc", "must name a valid host"),
                ("[::1", "must name a valid host"),
                ("h:65536", "must name a port from 1 "),
                ("h:0", "must name a port from 1 "),
                ("h:x", "must name a valid host"),
            )
        ),
        ("passthrough = 'a'\n[upstreams.a]\nbase_url = 'http://x'\nkind = 'vlm'", "upstreams.a.kind: must be one of "),
        (LOCAL, "upstreams: no model uses them; "),
        ("passthrough = 'x'\n" + ONE_MODEL, "passthrough: there is no upstream 'x'"),
        ("default_model = 'x'\n" + ONE_MODEL, "default_model: there is no model 'x'"),
        ("[models.m]\nupstreams = []", "models.m.upstreams: "),
        ("[models.m]\nupstreams = ['x']", "models.m.upstreams[0]: there is no upstream 'x'"),
        ("[models.m]\nupstreams = [{ name = 'x' }]", "models.m.upstreams[0]: there is no upstream 'x'"),
        ("[models.m]\nupstreams = [{ weight = 2 }]", "models.m.upstreams[0].name: is required"),
        ("[models.m]\nupstreams = [3]", "models.m.upstreams[0]: "),
        (ONE_MODEL.replace('["local"]', '["local", "local"]'), "models.m.upstreams[1]: 'local' is listed twice"),
        (ONE_MODEL.replace('["local"]', '[{ name = "local", weight = 0 }]'), "models.m.upstreams[0].weight: "),
        (ONE_MODEL + "price = { input = 1e300, output = 1 }", "models.m.price.input: must be at most 1000000"),
        ("[limits]\nspend_per_day = 1e300", "limits.spend_per_day: must be at most 1000000000"),
        ("[limits]\ntokens_per_minute = 9000000000000000000", "limits.tokens_per_minute: must be at most 10000000000"),
        (ONE_MODEL + "strategy = 'best'", "models.m.strategy: must be one of least_busy, weighted, prefix"),
        (ONE_MODEL + "fallbacks = ['n']", "models.m.fallbacks[0]: there is no model 'n'"),
        (ONE_MODEL + "fallbacks_on_content_filter = ['m']", "models.m.fallbacks_on_content_filter[0]: a model cannot"),
        (
            LOCAL + "health_path = 'health'",
            "upstreams.local.health_path: must be a path on the server, such as /health",
        ),
        (ONE_MODEL + "aliases = ['m']\n[models.n]\nupstreams = ['local']\naliases = ['m']", "models.n.aliases: 'm' is"),
        (
            ONE_MODEL + "defaults = { temprature = 1 }",
            "models.m.defaults.temprature: is not a known key; did you mean `temperature`?",
        ),
        (ONE_MODEL + "defaults = { temperature = -1 }", "models.m.defaults.temperature: "),
        (ONE_MODEL + "profile = { media = ['smell'] }", "models.m.profile.media[0]: "),
        (ONE_MODEL + "profile = { quirk = 1 }", "models.m.profile.quirk: is not a known key"),
        (ONE_MODEL.replace("models.m", 'models."qwen3.5"') + "name = 3", 'models["qwen3.5"].name: '),
        ("[upstreams.a]\nbase_url = '${NOWHERE}'\n", "upstreams.a.base_url: the environment variable NOWHERE is "),
        ("x = ", "parley.toml: is not valid TOML"),
        ("# \udcff", "parley.toml: is not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, start: str) -> None:
    Path("parley.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError) as caught:
        load({})
    assert any(mistake.startswith(start) for mistake in caught.value.mistakes), caught.value.mistakes


@pytest.mark.parametrize(
    ("text", "package", "extra", "start"),
    [
        ("[tracing]\nenabled = true", "opentelemetry", "otel", "tracing.enabled: traces need OpenTelemetry, which is "),
        (
            "[tracing]\nenabled = true",
            "opentelemetry.exporter",
            "otel",
            "tracing.enabled: traces need OpenTelemetry, which is ",
        ),
        (
            "[usage]\nurl = 'postgresql://db.test/parley'",
            "psycopg",
            "postgres",
            "usage.url: PostgreSQL needs the package psycopg, which is ",
        ),
    ],
)
def test_the_mistake_of_an_extra_that_is_missing_says_how_to_get_it(
    text: str, package: str, extra: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [_Without(package)])
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    (mistake,) = mistakes(text)
    ways = [f"make serve EXTRAS={extra}", f"--build-arg EXTRAS={extra}", f"parley-gateway[{extra}]"]
    assert mistake.startswith(start) and all(way in mistake for way in ways)


class _Without:
    """Finds modules as before, but not those of one package."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._finders = [*sys.meta_path]

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if f"{name}.".startswith(f"{self._package}."):
            return None
        return next((spec for one in self._finders if (spec := one.find_spec(name, path, target))), None)


@pytest.mark.parametrize("text", ["[server]\nport = 0\n[metrics]\nport = 0", "[metrics]\nport = 8000\nenabled = false"])
def test_a_port_of_the_metrics_that_is_not_used_twice_is_no_mistake(text: str) -> None:
    assert written(text).demo


@pytest.mark.parametrize(
    ("variable", "value", "mistake"),
    [
        ("PARLEY_PORT", "9000", "PARLEY_PORT: there is no setting with this name"),
        ("PARLEY_SEVER__PORT", "9000", "PARLEY_SEVER__PORT: there is no setting with this name"),
        ("PARLEY_SERVER__PROT", "9", "server.prot (PARLEY_SERVER__PROT): is not a known key; did you mean `port`?"),
        ("PARLEY_SERVER__PORT__X", "9", "PARLEY_SERVER__PORT__X: server.port is not a section"),
        ("PARLEY_CONFIG", "nowhere.toml", "nowhere.toml: cannot be read (No such file or directory)"),
        ("PARLEY_CONFIG", ".", ".: cannot be read (Is a directory)"),
    ],
)
def test_a_mistake_of_the_environment_names_its_variable(variable: str, value: str, mistake: str) -> None:
    assert mistake in mistakes("[server]\nport = 1", **{variable: value})


def test_a_wrong_value_of_a_shorthand_names_the_variable() -> None:
    (mistake,) = mistakes("", PARLEY_UPSTREAM_URL="localhost:8000")
    assert mistake.startswith("upstreams.default.base_url (PARLEY_UPSTREAM_URL): must be an http ")


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


@pytest.mark.parametrize("place", ["h:65535", "h:1", "[::1]:8000", "127.0.0.1", "b\u00fccher.example", "a_b.local"])
def test_a_host_that_can_exist_is_taken(place: str) -> None:
    assert load({"PARLEY_UPSTREAM_URL": f"http://{place}/v1"}).upstreams["default"].base_url == f"http://{place}/v1"


# -- secrets ------------------------------------------------------------------------------

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


# -- servers of tools -----------------------------------------------------------------------


@each_case(
    ("lines", "mistake"),
    [
        ("", "mcp_servers.a: must have exactly one of `command` and `url`"),
        ('command = "x"\nurl = "http://h/mcp"', "mcp_servers.a: must have exactly one of `command` and `url`"),
        ('command = "x"\nhttp_headers = { a = "b" }', "`http_headers` is only for a server with a `url`"),
        ('url = "http://h/mcp"\nargs = ["x"]', "`args` is only for a server with a `command`"),
        ('url = "http://h/mcp"\nscopes = ["x"]', "`scopes` is not a setting: OAuth is not supported"),
        ('url = "http://h/mcp"\nbearer_token = "x"', "name that in bearer_token_env_var"),
        ('url = "http://h/mcp"\nbearer_token_env_var = "NO"', "the environment variable NO is not set"),
        ('command = "x"\ndefault_tools_approval_mode = "prompt"', "use approval ="),
        ('command = "x"\n[mcp_servers.a-b]\ncommand = "x"', "there is a server 'a' too"),
        ('command = "x"\n[mcp_servers."a b"]\ncommand = "x"', "must be 1 to 32 letters"),
        ('command = "x"\n[upstreams.u]\nbase_url = "http://h/v1"\n[models.m]\nupstreams = ["u"]\ntools = ["b"]', "'b'"),
        (
            'command = "x"\n[upstreams.u]\nbase_url = "http://h/v1"\n[models.m]\nupstreams = ["u"]\n'
            'tools = ["a", {mcp = "a", tools = ["t"]}]',
            "models.m.tools[1]: 'a' is listed twice",
        ),
    ],
)
def test_a_mistake_in_a_server_of_tools_is_explained(lines: str, mistake: str) -> None:
    assert any(mistake in found for found in mistakes(f"[mcp_servers.a]\n{lines}\n"))


# -- issuers of JWTs ------------------------------------------------------------------------

ISSUER = 'issuer = "https://idp.test"\naudience = "parley"\n'


@each_case(
    ("lines", "mistake"),
    [
        ("", "jwt.a.issuer: "),
        ('issuer = "https://idp.test"', "jwt.a.audience: "),
        ('issuer = "https://idp.test"\naudience = []', "jwt.a.audience: "),
        ('issuer = "kubernetes"\naudience = "x"', "jwt.a: needs jwks_url or jwks_file, because `issuer` is no URL"),
        (ISSUER + 'jwks_url = "https://idp.test/k"\njwks_file = "k"', "has jwks_url and jwks_file: remove one of them"),
        (ISSUER + 'jwks_url = "file:///etc/keys"', "jwt.a.jwks_url: must be an http or https URL"),
        (ISSUER + 'jwks_file = "/no/such/file"', "jwt.a.jwks_file: /no/such/file cannot be read (No such file"),
        (ISSUER + 'algorithms = ["HS256"]', "jwt.a.algorithms"),
        (ISSUER + 'algorithms = ["none"]', "jwt.a.algorithms"),
        (ISSUER + "algorithms = []", "jwt.a.algorithms"),
        (ISSUER + "refresh_seconds = 1", "jwt.a.refresh_seconds"),
        (ISSUER + "leeway_seconds = 3600", "jwt.a.leeway_seconds"),
        (ISSUER + 'admin_claim = "roles"', "jwt.a: needs both of admin_claim and admin_value"),
        (ISSUER + "admin_value = true", "jwt.a: needs both of admin_claim and admin_value"),
        (ISSUER + 'team = "serch"\n[teams.search]', "jwt.a.team: there is no team 'serch'; did you mean `search`?"),
        (ISSUER + 'team_claim = "team"', "jwt.a.team_claim: there are no teams"),
        (ISSUER + 'ca_file = "/no/such/file"', "jwt.a: the certificates in /no/such/file cannot be used"),
        (ISSUER + f"[jwt.b]\n{ISSUER}", "jwt.b.issuer: 'a' has the same; list all audiences in one of them"),
        (ISSUER + f'[jwt."b:c"]\n{ISSUER}', "must be 1 to 64 letters"),
        (
            ISSUER
            + "limits = { spend_per_day = 1 }\n[upstreams.u]\nbase_url = 'http://h/v1'\n[models.m]\nupstreams = ['u']",
            "jwt.a.limits: limits spending, and the model 'm' is without a price",
        ),
        (
            ISSUER + "team_claim = 't'\n[upstreams.u]\nbase_url = 'http://h/v1'\n[models.m]\nupstreams = ['u']\n"
            "[teams.x]\nlimits = { spend_per_day = 1 }",
            "teams.x.limits: limits spending, and the model 'm' is without a price",
        ),
    ],
)
def test_a_mistake_in_an_issuer_of_tokens_is_explained(lines: str, mistake: str) -> None:
    found = mistakes(f"[jwt.a]\n{lines}\n")
    assert any(mistake in one for one in found), found


def test_an_issuer_makes_callers_known_and_has_the_proxy_of_the_environment() -> None:
    text = f'[jwt.a]\n{ISSUER}admin_claim = "admin"\nadmin_value = true\n'
    found = written(text, HTTPS_PROXY="http://user:secret@proxy.test:3128")
    assert (found.names_callers, found.requires_keys, found.separate_callers, found.has_admin) == (True,) * 4
    assert not found.serves_this_machine_only
    assert found.jwt["a"].admin_value is True
    proxy = found.jwt["a"].connections.proxy
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("proxy.test", 3128)
    assert "secret" not in repr(found)
    assert written(f'[jwt.a]\n{ISSUER}proxy = "none"', HTTPS_PROXY="http://p:1").jwt["a"].connections.proxy is None
    assert written(f"[jwt.a]\n{ISSUER}", HTTPS_PROXY="http://p:1", NO_PROXY="idp.test").jwt["a"].proxy is None
    assert not written(f"[jwt.a]\n{ISSUER}").has_admin
    environ = {"PARLEY_JWT__A__ISSUER": "https://idp.test/", "PARLEY_JWT__A__AUDIENCE": "x, y"}
    assert written("", **environ).jwt["a"].audience == ("x", "y")
    assert any("jwt.a.proxy" in line for line in mistakes(f"[jwt.a]\n{ISSUER}", HTTPS_PROXY="socks5://p:1"))


# -- the document ---------------------------------------------------------------------------

SECTIONS: dict[str, type[BaseModel]] = {
    "": Settings,
    "server.": Server,
    "cache.": CacheSettings,
    "prices.": PricesSettings,
    "state.": StateSettings,
    "usage.": UsageSettings,
    "responses.": ResponsesSettings,
    "reasoning.": ReasoningSettings,
    "fetch.": Fetch,
    "documents.": Documents,
    "limits.": LimitSettings,
    "metrics.": MetricsSettings,
    "tracing.": Tracing,
    "keys.<name>.": Key,
    "teams.<name>.": Team,
    "jwt.<name>.": JwtIssuer,
    "upstreams.<name>.": Upstream,
    "models.<name>.": Model,
    "mcp_servers.<name>.": McpServer,
    "tools.": ToolsSettings,
}
TABLES = {
    "server",
    "state",
    "prices",
    "fetch",
    "documents",
    "metrics",
    "tracing",
    "upstreams",
    "models",
    "keys",
    "teams",
    "jwt",
    "limits",
    "cache",
    "usage",
    "responses",
    "reasoning",
    "mcp_servers",
    "tools",
}


def fields() -> Iterator[tuple[str, FieldInfo]]:
    for prefix, section in SECTIONS.items():
        yield from (
            (prefix + name, info) for name, info in section.model_fields.items() if prefix or name not in TABLES
        )


def rows() -> dict[str, list[str]]:
    found = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.*?) ?\| (.+?) \| (.*?) ?\|$", DOCUMENT, re.MULTILINE)
    return {name: rest for name, *rest in found}


def shown(info: FieldInfo) -> str:
    """The default as the document writes it."""
    if info.is_required():
        return "required"
    default: Any = info.get_default(call_default_factory=True)
    if default is None:
        return ""
    if isinstance(default, BaseModel):
        return "`{}`"
    if isinstance(default, tuple):
        return f"`{json.dumps(default)}`"
    return f"`{default}`".replace("False", "false").replace("True", "true")


def test_the_document_lists_every_setting_with_its_default() -> None:
    assert {name: default for name, (_, default, *_) in rows().items()} == {
        name: shown(info) for name, info in fields()
    }


def test_the_document_names_the_variable_of_every_setting_that_is_one_value() -> None:
    for name, (_, _, _, variable) in rows().items():
        if variable:
            plain = "PARLEY_" + name.upper().replace(".", "__")
            assert variable.startswith(f"`{plain}") and re.fullmatch(r"(__<\w+>)?", variable[1 + len(plain) : -1])
        else:
            assert name in (
                "fetch.allow",
                "upstreams.<name>.headers",
                "models.<name>.upstreams",
                "models.<name>.aliases",
                "models.<name>.tools",
                "mcp_servers.<name>.args",
                "mcp_servers.<name>.env",
                "mcp_servers.<name>.http_headers",
                "mcp_servers.<name>.env_http_headers",
            )


def test_the_documents_example_is_sound() -> None:
    example = re.search(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert example
    settings = written(example.group(1), DASHSCOPE_API_KEY="k")
    assert set(settings.models) == {"qwen3", "qwen-max"}
    assert settings.profile("qwen3", "box").inline_think == "auto_close"


@pytest.mark.parametrize("key", ["k\\r\\nx-evil: 1", "schl\u00fcssel", " "])
def test_a_key_that_is_no_header_value_is_a_mistake(key: str) -> None:
    text = f'[upstreams.a]\nbase_url = "http://h/v1"\napi_key = "{key}"\n[models.m]\nupstreams = ["a"]\n'
    assert [one.split(":")[0] for one in mistakes(text)] == ["upstreams.a.api_key"]


def test_a_key_may_end_with_a_line_break() -> None:
    settings = written('[upstreams.a]\nbase_url = "http://h/v1"\napi_key = "k\\n"\n[models.m]\nupstreams = ["a"]\n')
    key = settings.upstreams["a"].api_key
    assert key is not None
    assert key.get_secret_value() == "k"


def test_secrets_may_be_in_files(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("sk-admin\n")
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
    assert settings.server.admin_key is not None and settings.server.admin_key.get_secret_value() == "sk-admin"
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
