"""A program in the place of a coding agent: it keeps what it is given, and ends with 7."""

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = f"""#!{sys.executable} -IS
import json, os, sys, time
with open(os.environ["SEEN"] + ".part", "w") as file:
    folder = os.environ.get("PI_CODING_AGENT_DIR")
    texts = {{name: open(os.path.join(folder, name)).read() for name in os.listdir(folder)}} if folder else {{}}
    json.dump({{"argv": sys.argv[1:], "env": dict(os.environ), "files": texts}}, file)
os.rename(os.environ["SEEN"] + ".part", os.environ["SEEN"])
if "wait" in sys.argv:
    time.sleep(60)
sys.exit(7)
"""


def write_stand_in(programs: Path, name: str) -> None:
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(PROGRAM)
    (programs / name).chmod(0o755)


def make_environ(own: dict[str, str], home: Path) -> dict[str, str]:
    """The variables with which the program in `home`/bin runs and `seen` finds what it kept."""
    settings = {"PARLEY_CACHE__URL": "null:", "PARLEY_USAGE__URL": "null:"}
    words = {"HOME": str(home), "PATH": f"{home / 'bin'}:/usr/bin:/bin", "SEEN": str(home / "seen.json")}
    agents = ("XDG_", "CODEX", "CLAUDE", "ANTHROPIC", "OPENAI", "OPENCODE", "QWEN", "PI_")
    return {name: value for name, value in own.items() if not name.startswith(agents)} | settings | words


def seen(home: Path) -> Any:
    return json.loads((home / "seen.json").read_text())
