"""scripts/release: what it refuses; and the wheel, built from this tree without a network."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from app import __version__
from packaging.version import Version

from tests.each_case import each_case

ROOT = Path(__file__).parents[2]
CHANGELOG = f"# Changelog\n\n## {__version__} - 2026-01-31\n\n### Added\n\n- Something.\n"
COPIED = (
    ".gitignore",
    "Dockerfile",
    "app/__init__.py",
    "deploy/helm/parley/Chart.yaml",
    "openapi/openapi.json",
    "pyproject.toml",
    "scripts/release",
)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def make_repository(folder: Path, changelog: str = CHANGELOG) -> Path:
    """A repository with one commit, which has all that names a version."""
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(changelog, "utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def check(folder: Path) -> tuple[int, str]:
    command = [sys.executable, str(folder / "scripts/release"), "--check"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_a_tag_that_is_the_version_everywhere_is_accepted(tmp_path: Path) -> None:
    folder = make_repository(tmp_path)
    git(folder, "tag", f"v{__version__}")
    assert check(folder) == (0, f"release: v{__version__}: the tag, the versions and the changelog agree\n")


def test_a_commit_without_a_tag_is_refused(tmp_path: Path) -> None:
    code, text = check(make_repository(tmp_path))
    assert code == 1 and "one tag vVERSION" in text


def test_a_changed_tree_is_refused(tmp_path: Path) -> None:
    folder = make_repository(tmp_path)
    git(folder, "tag", f"v{__version__}")
    (folder / "new.txt").touch()
    code, text = check(folder)
    assert code == 1 and "new.txt" in text and "commit or remove" in text


@each_case(
    "changelog, message",
    [
        (CHANGELOG.replace("## ", "## Unreleased\n\n## ", 1), "still has the section Unreleased"),
        (CHANGELOG.replace("2026-01-31", "soon"), "the newest section"),
        (CHANGELOG.replace(__version__, "0.0.1"), "the newest section of CHANGELOG.md is `0.0.1 - 2026-01-31`"),
        ("# Changelog\n", "is `nothing`"),
    ],
)
def test_a_changelog_without_the_version_is_refused(changelog: str, message: str, tmp_path: Path) -> None:
    folder = make_repository(Path(tempfile.mkdtemp(dir=tmp_path)), changelog)
    git(folder, "tag", f"v{__version__}")
    code, text = check(folder)
    assert code == 1 and message in text


@each_case("name", [name for name in COPIED if name not in (".gitignore", "scripts/release")])
def test_a_file_with_another_version_is_named(name: str, tmp_path: Path) -> None:
    folder = make_repository(Path(tempfile.mkdtemp(dir=tmp_path)))
    file = folder / name
    file.write_text(file.read_text("utf-8").replace(__version__, "9.9.9"), "utf-8")
    git(folder, "commit", "--quiet", "--all", "--message", "changed")
    git(folder, "tag", f"v{__version__}")
    code, text = check(folder)
    assert code == 1 and f"{name} has version 9.9.9, the tag is v{__version__}" in text


# -- the packages -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that was built from it."""
    try:
        metadata.version("build")
        recent = Version(metadata.version("setuptools")) >= Version("77")
    except metadata.PackageNotFoundError:
        recent = False
    if not recent:
        pytest.skip("the packages build and setuptools >= 77 are not installed")
    folder = tmp_path_factory.mktemp("packages")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if name.partition("/")[0] in ("app", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "tree" / name)
    # The assets of a page, in a folder without Python code.
    (folder / "tree/app/api/assets").mkdir()
    (folder / "tree/app/api/assets/page.css").write_text("body {}", "utf-8")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--skip-dependency-check",
        "--outdir",
        str(folder / "dist"),
        str(folder / "tree"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


def find_files(folder: Path, wanted: Callable[[Path], bool]) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in folder.rglob("*") if path.is_file() and wanted(path)}


@pytest.mark.interpreted
def test_the_wheel_has_every_file_of_the_program_and_no_byte_code(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    ours = find_files(ROOT / "app", lambda path: "__pycache__" not in path.parts)
    assert names - {"app/api/assets/page.css"} == ours and "app/api/assets/page.css" in names
    assert "app/py.typed" in names


@pytest.mark.interpreted
def test_the_sdist_can_be_built_from_and_has_the_licence(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "app/py.typed", "app/api/assets/page.css"} <= names
    assert not any(name.startswith("tests/") for name in names)


@pytest.mark.interpreted
def test_the_commands_of_the_wheel_run_in_an_empty_environment(packages: tuple[Path, Path], tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--prefix", str(environment), "--ignore-installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    subprocess.run([*pip, str(packages[1])], check=True, capture_output=True)
    # The dependencies are those of this environment, and only they: its link to app/ is in a file that is not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    python = environment / "bin/python"
    where = subprocess.run([python, "-c", "import app; print(app.__file__)"], cwd=tmp_path, capture_output=True)
    assert Path(where.stdout.decode().strip()).is_relative_to(site)
    for name in ("parley", "parley-gateway"):
        program = (environment / "bin" / name).read_text("utf-8").partition("\n")[2]
        (tmp_path / name).write_text(program, "utf-8")
        ended = subprocess.run([python, tmp_path / name, "--version"], cwd=tmp_path, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout) == (0, f"parley {__version__}\n"), ended.stderr
