"""The message for every mistake."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app.config.load import load
from app.config.settings import SettingsError

from tests.config.written_settings import LOCAL, ONE_MODEL, mistakes, written
from tests.each_case import each_case


def _two_models(first: str, second: str) -> str:
    """Return two models that serve these endpoints, of which the second is a fallback of the first."""
    own = f"[models.a]\nupstreams = ['local']\nendpoints = ['{first}']\nfallbacks = ['b']\n"
    return f"{own}[models.b]\nupstreams = ['local']\nendpoints = ['{second}']\n"


def _pattern(*aliases: str) -> str:
    return f"[models.p]\nupstreams = ['local']\nname = 'x-*'\naliases = {[*aliases]}\n"


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
        ("[request_log]\nurl = 'postgresql://u@h/d'", "request_log.url: must name a file on this machine"),
        (
            "[state]\nurl = 'sqlite:///s.db'\n[request_log]\nurl = 'sqlite:///s.db'",
            "request_log.url: is also state.url; the request log needs a file of its own",
        ),
        (
            "[server]\nadmin_key = 'letmein'",
            "server.admin_key: the key is too short to be safe: use at least 16 characters",
        ),
        ("[metrics]\nport = 8000", "metrics.port: 8000 is server.port too; use another port"),
        (
            LOCAL + "[models.e]\nupstreams = ['local']\nendpoints = ['vectors']",
            "models.e.endpoints[0]: must be one of chat, embeddings, ",
        ),
        (
            LOCAL + _two_models("embeddings", "embeddings"),
            "models.a.fallbacks[0]: the vectors of 'b' cannot be compared with those of this model",
        ),
        (
            LOCAL + _two_models("embeddings", "rerank"),
            "models.a.fallbacks[0]: 'b' serves none of the endpoints of this model: embeddings",
        ),
        (
            LOCAL + "[models.p]\nupstreams = ['local']\nname = '*'",
            "models.p.name: `*` is what the `*` of an alias stands for",
        ),
        (LOCAL + _pattern("a-*", "b"), "models.p.name: `*` is what the `*` of an alias stands for"),
        (LOCAL + _pattern("a-*-*"), "models.p.name: `*` is what the `*` of an alias stands for"),
        (
            LOCAL + _pattern("a-*") + "[models.b]\nupstreams = ['local']\nfallbacks = ['p']\n",
            "models.b.fallbacks[0]: 'p' stands for many models: add one with a name of its own",
        ),
        (LOCAL + _pattern("a-*") + "[models.v]\nuse = 'p'\n", "models.v.use: there is no model 'p' with upstreams"),
        ("default_model = 'p'\n" + LOCAL + _pattern("a-*"), "default_model: there is no model 'p'"),
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
        ("[models.m]\naliases = ['n']", "models.m.upstreams: name the upstreams that serve the model, or set `use` "),
        (ONE_MODEL + "rules = [{ when = { media = 'image' }, use = 'm' }]", "models.m.rules: is for a virtual model"),
        (ONE_MODEL + "route_seconds = 60", "models.m.route_seconds: is for a virtual model"),
        (ONE_MODEL + "[models.v]\nuse = 'n'", "models.v.use: there is no model 'n' with upstreams"),
        (ONE_MODEL + "[models.v]\nuse = 'v'", "models.v.use: there is no model 'v' with upstreams"),
        (
            ONE_MODEL + "[models.v]\nuse = 'm'\nrules = [{ when = { key = 'a' }, use = 'v' }]",
            "models.v.rules[0].use: there is no model 'v' with upstreams",
        ),
        (ONE_MODEL + "[models.v]\nuse = 'm'\nrules = [{ when = {}, use = 'm' }]", "models.v.rules[0].when: has no "),
        (
            ONE_MODEL + "[models.v]\nuse = 'm'\nrules = [{ when = { tokens = 3 }, use = 'm' }]",
            "models.v.rules[0].when.tokens: is not a known key",
        ),
        (ONE_MODEL + "[models.v]\nuse = 'm'\nfallbacks = ['m']", "models.v.fallbacks: a virtual model has none"),
        (ONE_MODEL + "[models.v]\nuse = 'm'\nupstreams = ['local']", "models.v.upstreams: a virtual model has none"),
        (
            ONE_MODEL + "fallbacks = ['w']\n[models.v]\nuse = 'm'\naliases = ['w']",
            "models.m.fallbacks[0]: 'w' is a virtual model",
        ),
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
        (
            ONE_MODEL.replace("models.m", "models.qwen2.5-coder"),
            'models.qwen2["5-coder"]: is not a known key; a name with a dot is written in quotes: '
            '[models."qwen2.5-coder"]',
        ),
        ("\ufeffx = 1", "x: is not a known key"),
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
        (
            "[masking]\nrules_file = 'gitleaks.toml'",
            "re2",
            "guards",
            "masking.rules_file: its expressions need google-re2, which is ",
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
    ways = [f"make serve EXTRAS={extra}", f"--build-arg EXTRAS={extra}", f"WHEEL[{extra}]"]
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
