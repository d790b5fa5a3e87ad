"""Fails if a module of the gateway or an extension module cannot be loaded: python deploy/image/check_imports.py

The Dockerfile runs it after trim.py. Only the optional extras may be missing.
"""

import ctypes
import importlib
import pkgutil
import sys
import sysconfig
from pathlib import Path

EXTRAS = ("opentelemetry", "psycopg")
"""What the extras of the project install."""


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    import app

    failures = []
    for module in pkgutil.walk_packages(app.__path__, "app."):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in EXTRAS:
                failures.append(f"{module.name}: {error}")
    for library in Path(sysconfig.get_path("purelib")).rglob("*.so"):
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            failures.append(str(error))
    sys.exit("\n".join(failures) or None)


if __name__ == "__main__":
    main()
