"""What every coding agent is given so that it asks a gateway, in words that are not one agent's own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

KEY_VARIABLE = "PARLEY_API_KEY"
ANY_KEY = "any"
"""What an agent sends to a gateway without API keys, because most refuse to start without one."""

DEFAULT_REPLY_TOKENS = 8192
"""The room for one reply, if it is not known how long a reply of the model may be."""


class ServedModel(Struct, frozen=True):
    """A model of the gateway, as `GET /v1/models` describes it."""

    name: str
    window: int | None = None
    """The tokens of a conversation and its reply together; None if they are not known."""
    longest_reply: int | None = None
    takes_images: bool = False
    searches: bool = False
    """Whether the gateway searches the web for it."""

    @property
    def reply_tokens(self) -> int | None:
        """How long a reply an agent may ask for: at most a quarter of the window, so that the rest is for the
        conversation. None if nothing is known."""
        if self.window is None:
            return self.longest_reply
        return min(self.longest_reply or DEFAULT_REPLY_TOKENS, self.window // 4)

    @property
    def compact_at(self) -> int | None:
        """The length of a conversation from which on it must be compacted, so that a reply still fits."""
        if self.window is None or self.reply_tokens is None:
            return None
        return self.window - self.reply_tokens


class Connection(Struct, frozen=True):
    """A gateway, and the model that an agent uses there."""

    url: str
    """Without `/v1`."""
    model: ServedModel
    models: tuple[ServedModel, ...] = ()
    """The models that the caller may use."""
    websockets: bool = False
    """Whether the gateway takes Responses over a WebSocket."""
    codex_models: tuple[Mapping[str, Any], ...] = ()
    """The models in Codex's own form; empty if the gateway does not offer them."""

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"


class Start(Struct, frozen=True):
    """How an agent's program is started."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    removed: tuple[str, ...] = ()
    """Inherited variables that would make the agent bypass the gateway; a `*` at the end matches any text."""
    files: Mapping[str, str] = {}
    """Texts of files in the temporary folder, by name."""
    linked: Path | None = None
    """A folder of the user. What is in it, and not in `files`, is linked into the temporary folder."""


class SettingsFile(Struct, frozen=True):
    """What an agent's own file of settings must hold so that it always asks the gateway."""

    path: Path
    syntax: Literal["json", "toml"]
    values: Mapping[tuple[str, ...], Any]
    """Each value by its keys from the outermost table on."""
    beside: Mapping[Path, str] = {}
    """The texts of other files, which are the gateway's alone."""
    warnings: tuple[str, ...] = ()


class Agent(Struct, frozen=True):
    title: str
    program: str
    package: str
    """Its package in the npm registry."""
    make_start: Callable[[Connection, str, Sequence[str], Path, Mapping[str, str]], Start]
    """Takes the gateway, the key, the caller's arguments, a temporary folder and the environment."""
    make_settings: Callable[[Connection, str | None, Mapping[str, str]], SettingsFile]
    """Takes the gateway, the variable that holds the key (None: the gateway needs none) and the environment."""
    bypassing: tuple[str, ...] = ()
    """Variables of the environment that win over the file of settings."""
    list_winning_files: Callable[[Mapping[str, str]], tuple[Path, ...]] | None = None
    """Lists the files of settings that win over the variables of a start; None if there are none. Paths that are
    relative are in the working directory."""
    pin_start: Callable[[Start, Sequence[str], Path], Start] | None = None
    """Returns a start that wins over the texts of these files; the path is the temporary folder."""
    add_models: Callable[[Connection, SettingsFile], SettingsFile] | None = None
    """Returns settings with a file that describes the gateway's models; None: the agent reads no such file."""

    @property
    def install_line(self) -> str:
        return f"npm install -g {self.package}"


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a variable is one of these; a `*` at the end of a pattern matches any text."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def find_folder(environ: Mapping[str, str], variable: str, *default: str) -> Path:
    """Return the folder that the variable names, else the default one in the user's home."""
    return Path(environ.get(variable) or Path(environ.get("HOME") or "~").joinpath(*default))


def has_option(arguments: Sequence[str], *names: str) -> bool:
    """Whether one of these options stands among the arguments, as `--name VALUE` or `--name=VALUE`."""
    return any(word in names or word.startswith(tuple(f"{name}=" for name in names)) for word in arguments)
