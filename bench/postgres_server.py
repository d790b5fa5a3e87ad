"""A PostgreSQL of a run's own, with the programs of the machine (Debian: apt-get install postgresql)."""

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from chaos_processes import Program, free_port

_USER = "postgres"
"""PostgreSQL does not run as root; Debian's package makes this user."""


def make_postgres(folder: Path) -> Program | None:
    """Return a server with an empty database in a folder; None if PostgreSQL or psycopg, the extra `postgres`, is not
    installed."""
    found = _find_programs()
    if found is None or importlib.util.find_spec("psycopg_pool") is None:
        return None
    data, as_user = folder / "postgres", list[str]()
    data.mkdir()
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam(_USER)
        except KeyError:
            return None
        folder.chmod(0o711)
        os.chown(data, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    command = [*as_user, str(found / "initdb"), "-D", str(data), "-A", "trust", "-U", _USER, "--no-sync"]
    subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)
    port = free_port()
    command = [*as_user, str(found / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"]
    return Program("postgres", command, folder, port)


def make_url(server: Program) -> str:
    return f"postgresql://{_USER}@127.0.0.1:{server.port}/{_USER}"


def _find_programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`, which Debian does not put on the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: int(one.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    folders += [Path(on_path).parent] if on_path else []
    return next((one for one in folders if (one / "initdb").exists() and (one / "postgres").exists()), None)
