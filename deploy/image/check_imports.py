"""Fails if a module of the gateway or an extension module cannot be loaded: deploy/image/check_imports.py [EXTRA …]

The Dockerfile runs it after trim.py. Only the packages of extras that are not named may be missing. With --compiled it
also fails if a module that scripts/compile compiles was loaded from its source.
"""

import ctypes
import importlib.util
import pkgutil
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = {"guards": "re2", "otel": "opentelemetry", "postgres": "psycopg"}
"""The package that each extra of the project brings, by the name of the extra."""


def find_interpreted() -> Iterator[str]:
    """Yield the modules that were to be compiled, and that Python loads from their sources."""
    for pattern in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["parley"]["compiled"]:
        for source in ROOT.glob(pattern):
            name = ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            spec = importlib.util.find_spec(name)
            if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
                yield name


def main() -> None:
    sys.path.insert(0, str(ROOT))
    import app

    failures = []
    absent = {package for extra, package in EXTRAS.items() if extra not in sys.argv[1:]}
    for module in pkgutil.walk_packages(app.__path__, "app."):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in absent:
                failures.append(f"{module.name}: {error}")
    for library in Path(sysconfig.get_path("purelib")).rglob("*.so"):
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            failures.append(str(error))
    if "--compiled" in sys.argv[1:]:
        failures += [f"{name}: is not compiled" for name in find_interpreted()]
    sys.exit("\n".join(failures) or None)


if __name__ == "__main__":
    main()
