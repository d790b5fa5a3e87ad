"""The only reader of the environment and of `parley.toml`: both become one frozen `Settings`, or a list of mistakes.

The file is `PARLEY_CONFIG`, else `./parley.toml` where it exists. Every scalar can also come from the environment, as
`PARLEY_` and its place with double underscores (`PARLEY_SERVER__PORT`); the environment wins. `${NAME}` in a string of
the file is the environment's `NAME`. docs/configuration.md lists every setting; a test compares.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from app.formats.violations import violations
from app.params import GenerateCfg
from app.profiles import KINDS, Profile

DEMO = "demo"
_SHORTHANDS = {
    "PARLEY_UPSTREAM_URL": "base_url",
    "PARLEY_UPSTREAM_API_KEY": "api_key",
    "PARLEY_UPSTREAM_KIND": "kind",
}
"""One upstream by environment alone, under the name `default`; every model name passes through to it."""

Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsError(Exception):
    """Every mistake of a configuration, each with its place."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


def _http_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
        raise ValueError("must be an http or https URL without a query, such as http://127.0.0.1:8001/v1")
    return value.rstrip("/")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Server(_Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=256)
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    max_messages: int = Field(default=10_000, ge=1)
    max_nesting: int = Field(default=64, ge=8, le=150)
    max_concurrent_requests: int = Field(default=4096, ge=1)
    heartbeat_seconds: Seconds = 15.0
    commit_seconds: Seconds = 5.0
    stall_seconds: Seconds = 120.0
    settle_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    drain_seconds: Seconds = 30.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Upstream(_Section):
    base_url: Annotated[str, AfterValidator(_http_url)]
    kind: str = "openai_compatible"
    api_key: SecretStr | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    connect_seconds: Seconds = 10.0
    first_token_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0
    max_connections: int = Field(default=4096, ge=1)


class Model(_Section):
    upstreams: tuple[str, ...] = Field(min_length=1)
    name: str | None = None
    aliases: tuple[str, ...] = ()
    defaults: GenerateCfg = GenerateCfg()
    max_retries: int = Field(default=0, ge=0, le=10)
    profile: dict[str, Any] = Field(default_factory=dict)


class Settings(_Section):
    default_model: str | None = None
    server: Server = Server()
    upstreams: dict[str, Upstream] = Field(default_factory=dict)
    models: dict[str, Model] = Field(default_factory=dict)
    passthrough: str | None = None
    """The upstream to which every other model name goes."""
    tokenizer: str | None = None
    """The file that counts for models whose profile names none; without one, tokens are estimated."""
    demo: bool = False
    """The built-in demonstration model serves, as the model `demo`."""

    def kind_profile(self, kind: str) -> Profile:
        return KINDS[kind]

    def profile(self, model: str, upstream: str) -> Profile:
        row = self.kind_profile(self.upstreams[upstream].kind)
        fields = self.models[model].profile if model in self.models else {}
        return Profile.model_validate({**row.model_dump(), **fields}) if fields else row


def load(environ: Mapping[str, str] | None = None, path: Path | None = None) -> Settings:
    """The settings of this process. Raises SettingsError with every mistake."""
    environ = os.environ if environ is None else environ
    mistakes: list[str] = []
    tree, origin = _file(environ, path, mistakes)
    tree = _interpolated(tree, environ, origin, "", mistakes)
    _overlay(tree, environ, mistakes)
    _shorthand(tree, environ)
    if not tree.get("upstreams") and not tree.get("models"):
        tree = {**tree, "demo": True}
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        mistakes += (f"{item.path or 'the file'}: {item.message}" for item in violations(error))
        raise SettingsError(mistakes) from None
    mistakes += _dangling(settings)
    if mistakes:
        raise SettingsError(mistakes)
    return settings


def _file(environ: Mapping[str, str], path: Path | None, mistakes: list[str]) -> tuple[dict[str, Any], str]:
    named = path or (Path(environ["PARLEY_CONFIG"]) if environ.get("PARLEY_CONFIG") else None)
    file = named or Path("parley.toml")
    if named is None and not file.exists():
        return {}, "the environment"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")), str(file)
    except OSError as error:
        mistakes.append(f"{file}: cannot be read ({error.strerror})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        mistakes.append(f"{file}: is no TOML ({error})")
    raise SettingsError(mistakes)


def _interpolated(value: Any, environ: Mapping[str, str], origin: str, path: str, mistakes: list[str]) -> Any:
    """`${NAME}` replaced everywhere; a name that the environment lacks is a mistake."""
    if isinstance(value, dict):
        return {
            key: _interpolated(item, environ, origin, f"{path}.{key}" if path else key, mistakes)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_interpolated(item, environ, origin, f"{path}[{at}]", mistakes) for at, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def read(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environ:
            mistakes.append(f"{path}: the environment has no {name}")
        return environ.get(name, "")

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", read, value)


def _overlay(tree: dict[str, Any], environ: Mapping[str, str], mistakes: list[str]) -> None:
    """`PARLEY_A__B=value` sets a.b. Names of upstreams and models match without regard to case and punctuation."""
    for variable in sorted(environ):
        if not variable.startswith("PARLEY_") or variable in _SHORTHANDS or variable == "PARLEY_CONFIG":
            continue
        steps = variable.removeprefix("PARLEY_").lower().split("__")
        if steps[0] not in Settings.model_fields:
            mistakes.append(f"{variable}: there is no setting of this name")
            continue
        node: Any = tree
        for step in steps[:-1]:
            node = node.setdefault(_existing(node, step), {})
            if not isinstance(node, dict):
                mistakes.append(f"{variable}: {step} is not a section")
                break
        else:
            node[_existing(node, steps[-1])] = environ[variable]


def _existing(node: dict[str, Any], step: str) -> str:
    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "_", name.lower())

    return next((key for key in node if plain(key) == step), step)


def _shorthand(tree: dict[str, Any], environ: Mapping[str, str]) -> None:
    if not environ.get("PARLEY_UPSTREAM_URL"):
        return
    upstream = tree.setdefault("upstreams", {}).setdefault("default", {})
    for variable, field in _SHORTHANDS.items():
        if environ.get(variable):
            upstream[field] = environ[variable]
    tree.setdefault("passthrough", "default")


def _dangling(settings: Settings) -> list[str]:
    """Names that lead nowhere, and profiles that are none."""
    mistakes = []
    names = set(settings.models) | {alias for model in settings.models.values() for alias in model.aliases}
    if settings.demo:
        names.add(DEMO)
    for name, upstream in settings.upstreams.items():
        if upstream.kind not in KINDS:
            mistakes.append(f"upstreams.{name}.kind: {upstream.kind!r} is none of {', '.join(sorted(KINDS))}")
    if settings.passthrough and settings.passthrough not in settings.upstreams:
        mistakes.append(f"passthrough: there is no upstream {settings.passthrough!r}")
    if settings.default_model and settings.default_model not in names and not settings.passthrough:
        mistakes.append(f"default_model: there is no model {settings.default_model!r}")
    for name, model in settings.models.items():
        mistakes += _dangling_model(name, model, settings)
    return mistakes


def _dangling_model(name: str, model: Model, settings: Settings) -> list[str]:
    mistakes = [
        f"models.{name}.upstreams[{at}]: there is no upstream {upstream!r}"
        for at, upstream in enumerate(model.upstreams)
        if upstream not in settings.upstreams
    ]
    for alias in model.aliases:
        owners = [other for other, row in settings.models.items() if alias == other or alias in row.aliases]
        if owners != [name]:
            mistakes.append(f"models.{name}.aliases: {alias!r} is also the name of another model")
    try:
        Profile.model_validate({**Profile().model_dump(), **model.profile})
    except ValidationError as error:
        mistakes += (f"{item.path}: {item.message}" for item in violations(error, f"models.{name}.profile"))
    return mistakes
