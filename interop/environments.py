"""The clients of clients.toml, each with an environment of its own under .interop/."""

import asyncio
import os
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".interop"
INSTALL_SECONDS = 1500


class NotInstalled(Exception):
    """What the package manager said last."""


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    title: str
    program: str
    packages: tuple[str, ...]
    note: str = ""
    """What must be known to install it."""
    faults: dict[str, str] = field(default_factory=dict)
    """Checks that fail because of the client, each with the reason."""
    goldens: str = ""
    """The folder in `PARLEY_GOLDENS` whose program is run, instead of one of `clients` and `node`."""

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    @property
    def node(self) -> bool:
        return self.program.endswith(".mjs")

    @property
    def command(self) -> list[str]:
        if self.node:  # a module looks for packages beside itself, so the program goes to them
            return ["node", str(self.folder / Path(self.program).name)]
        return [str(self.folder / "bin" / "python"), str(HERE / self.program)]


def clients(names: list[str]) -> list[Client]:
    """Those of the table that are named, or all. Raises KeyError for a name that the table does not have."""
    table = tomllib.loads((HERE / "clients.toml").read_text("utf-8"))
    rows = {name: Client(name, **{**row, "packages": tuple(row["packages"])}) for name, row in table.items()}
    return [rows[name] for name in names or rows]


async def install(client: Client) -> None:
    """Installs what is not installed yet. Raises NotInstalled."""
    stamp = client.folder / ".complete"
    wanted = " ".join(client.packages)
    if not (stamp.exists() and stamp.read_text("utf-8") == wanted):
        stamp.unlink(missing_ok=True)
        client.folder.mkdir(parents=True, exist_ok=True)
        for command in _node(client) if client.node else _python(client):
            await _run(command, client.folder)
        stamp.write_text(wanted, "utf-8")
    if client.node:
        for source in (HERE / client.program, HERE / "node" / "checks.mjs"):
            (client.folder / source.name).write_bytes(source.read_bytes())


def _python(client: Client) -> list[list[str]]:
    pip = [str(client.folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    return [[sys.executable, "-m", "venv", "--clear", str(client.folder)], [*pip, *client.packages]]


def _node(client: Client) -> list[list[str]]:
    (client.folder / "package.json").write_text('{"private": true}\n', "utf-8")
    return [["npm", "install", "--silent", "--no-package-lock", *client.packages]]


async def _run(command: list[str], where: Path) -> None:
    try:
        async with asyncio.timeout(INSTALL_SECONDS):
            running = await asyncio.create_subprocess_exec(
                *command, cwd=where, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=os.environ
            )
            output, _ = await running.communicate()
    except OSError as error:
        raise NotInstalled(str(error)) from error
    except TimeoutError:
        running.kill()
        raise NotInstalled(f"not done within {INSTALL_SECONDS} seconds: {command[0]}") from None
    if running.returncode:
        raise NotInstalled(output.decode("utf-8", "replace").strip().splitlines()[-1][-300:])
