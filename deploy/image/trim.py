"""Removes from a virtual environment what the gateway never uses: .venv/bin/python deploy/image/trim.py [EXTRA …]

It removes the distributions that neither the project nor the named extras need, and those that only an entry of UNUSED
needs; pip itself; sources and tests of packages; and symbols that only a debugger reads (if `strip` is installed). The
Dockerfile runs it in the stage that builds.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

try:
    from packaging.requirements import Requirement
except ImportError:  # the runtime environment has only the copy that pip brings
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

ROOT = Path(__file__).parents[2]
UNUSED = {
    ("tokenizers", "huggingface-hub"): "downloads tokenizers; the gateway reads only files that are there",
    ("tiktoken", "requests"): "downloads ranks; the gateway reads only files that are there",
    ("tiktoken", "regex"): "finds special tokens; the gateway encodes all text as ordinary text",
}
"""What a distribution requires although the gateway never reaches the code that imports it, and why."""
_SOURCES = {".pyi", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".h", ".hpp"}
_TESTS = {"test", "tests"}
_UNREACHABLE = ("zstandard/_cffi.*", "PIL/_imagingtk.*")
"""Modules that cannot be imported, because cffi and tkinter are not installed."""


def find_needed(requirements: Iterable[str]) -> set[str]:
    """Return the names of all installed distributions that the requirements need, without what UNUSED leaves out."""
    wanted = [Requirement(one) for one in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        requirement = wanted.pop()
        name, extras = normalize(requirement.name), frozenset(requirement.extras) or frozenset(("",))
        environments = [{"extra": extra} for extra in extras]
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for one in map(Requirement, metadata.requires(name) or ()):
            required = one.marker is None or any(one.marker.evaluate(environment) for environment in environments)
            if required and (name, normalize(one.name)) not in UNUSED:
                one.marker = None
                wanted.append(one)
    return {name for name, _ in seen}


def read_requirements(extras: Iterable[str] = (), pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    """Return what the project and some of its extras require."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    return [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def find_files(name: str) -> Iterator[Path]:
    """Yield the files of an installed distribution, without byte code and without what `trim` removes."""
    distribution = metadata.distribution(name)
    for file in distribution.files or ():
        if "__pycache__" not in file.parts and not _is_superfluous(Path(file)):
            path = Path(str(distribution.locate_file(file)))
            if path.is_file():
                yield path


def _is_superfluous(file: Path) -> bool:
    """Whether the gateway never reads a file, whose path is relative to site-packages."""
    tests = _TESTS.intersection(file.parts[:-1])
    return file.suffix in _SOURCES or bool(tests) or any(file.match(pattern) for pattern in _UNREACHABLE)


def _uninstall(needed: set[str]) -> None:
    installed = {normalize(one.metadata["Name"]) for one in metadata.distributions()}
    unneeded = sorted(installed - needed - {"pip"})
    pip: list[Any] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "uninstall", "--quiet", "--yes"]
    for names in (unneeded, ["pip"]):
        if names:
            subprocess.run([*pip, *names], check=True)
    print(f"removed {', '.join([*unneeded, 'pip'])}")


def _remove_files(site: Path) -> None:
    for path in sorted(site.rglob("*"), reverse=True):
        relative = path.relative_to(site)
        if path.is_dir() and (path.name == "__pycache__" or path.name in _TESTS):
            shutil.rmtree(path)
        elif path.is_file() and _is_superfluous(relative):
            path.unlink()


def _strip_symbols(site: Path) -> None:
    """Strip extension modules, but no library in `*.libs`: these were rewritten when the wheel was made."""
    program = shutil.which("strip")
    if program is None:
        print("strip is not installed: extension modules keep their symbols, about 35 MB")
        return
    modules = [path for path in site.rglob("*.so") if not path.relative_to(site).parts[0].endswith(".libs")]
    subprocess.run([program, "--strip-unneeded", *modules], check=True)


def main() -> None:
    site = Path(sysconfig.get_path("purelib"))
    if not site.is_relative_to(ROOT) or sys.prefix == sys.base_prefix:
        sys.exit(f"{site} is not in a virtual environment of {ROOT}: run this program with its .venv/bin/python")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    _uninstall(find_needed(read_requirements(sys.argv[1:])) | {normalize(project)})
    _remove_files(site)
    _strip_symbols(site)


if __name__ == "__main__":
    main()
