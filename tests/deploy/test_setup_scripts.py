"""`scripts/bootstrap` and `scripts/install`, with a Python that only writes down what it is to install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
"-m venv") rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-m pip") for last; do :; done && cat "$last" >>"$INSTALLED" ;;
"-c "*purelib*) dirname -- "$0" ;;
esac
"""
KINDS = ("compile", "dev", "otel", "postgres")


class Checkout:
    """A checkout of scripts and of locks that name one package each: the lock's own name."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        (self.root / "scripts").mkdir(parents=True)
        for name in ("bootstrap", "install"):
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts")
        self.write_lock("runtime", "1")
        for kind in KINDS:
            self.write_lock(kind, "1")
        self._python = folder / "python3"
        self._python.write_text(FAKE_PYTHON)
        self._python.chmod(0o755)
        self._installed = folder / "installed"
        self.home = folder / "home"
        self.home.mkdir()

    def write_lock(self, kind: str, version: str) -> None:
        name = "requirements.lock" if kind == "runtime" else f"requirements-{kind}.lock"
        (self.root / name).write_text(f"{kind}=={version}\n")

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHON": str(self._python)}
        variables |= {"INSTALLED": str(self._installed)} | environment
        command = [str(self.root / "scripts" / script), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=30, check=False)

    def bootstrap(self, *arguments: str) -> set[str]:
        """Return what it installed."""
        self._installed.write_text("")
        done = self.run("bootstrap", *arguments)
        assert done.returncode == 0, done.stderr
        return set(self._installed.read_text().split())


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_extra_is_installed_beside_the_packages_of_the_runtime(checkout: Checkout) -> None:
    assert checkout.bootstrap("runtime", "otel", "postgres") == {"runtime==1", "otel==1", "postgres==1"}
    assert checkout.bootstrap("runtime", "otel") == set()
    assert checkout.bootstrap() == set()


def test_an_extra_is_added_to_what_is_installed(checkout: Checkout) -> None:
    assert checkout.bootstrap("runtime") == {"runtime==1"}
    assert checkout.bootstrap("runtime", "postgres") == {"postgres==1"}
    assert checkout.bootstrap("compile") == {"compile==1"}


def test_an_extra_stays_when_the_environment_is_made_again(checkout: Checkout) -> None:
    checkout.bootstrap("runtime", "postgres")
    checkout.write_lock("runtime", "2")
    assert checkout.bootstrap("runtime") == {"runtime==2", "postgres==1"}
    checkout.write_lock("postgres", "2")
    assert checkout.bootstrap("runtime", "postgres") == {"postgres==2"}


def test_the_environment_of_developers_has_everything(checkout: Checkout) -> None:
    assert checkout.bootstrap("dev") == {"dev==1"}
    assert checkout.bootstrap("runtime", "otel") == checkout.bootstrap("compile", "postgres") == set()


def test_the_environment_of_the_compiler_contains_the_runtime(checkout: Checkout) -> None:
    assert checkout.bootstrap("compile", "otel") == {"runtime==1", "compile==1", "otel==1"}


@pytest.mark.parametrize("arguments", [["running"], ["runtime", "otle"], ["runtime", "otel,postgres"]])
def test_an_unknown_argument_is_refused_with_the_choices(checkout: Checkout, arguments: list[str]) -> None:
    done = checkout.run("bootstrap", *arguments)
    assert done.returncode == 2
    assert f"unknown {'extra' if len(arguments) > 1 else 'environment'}: {arguments[-1]}" in done.stderr
    assert "otel or postgres" in done.stderr and not (checkout.root / ".venv").exists()


@pytest.fixture
def installed(checkout: Checkout) -> Checkout:
    program = checkout.root / ".venv/bin/parley"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho parley 1.2.3\n")
    program.chmod(0o755)
    return checkout


def test_the_command_is_put_into_the_users_folder_and_may_be_put_there_again(installed: Checkout) -> None:
    folder = installed.home / ".local/bin"
    for _ in range(2):
        done = installed.run("install")
        assert done.returncode == 0 and f"rm {folder}/parley" in done.stderr
    answer = subprocess.run([folder / "parley"], capture_output=True, text=True, check=True)
    assert answer.stdout == "parley 1.2.3\n"


def test_a_folder_that_is_not_in_the_path_is_reported_with_the_line_that_adds_it(installed: Checkout) -> None:
    folder = f"{installed.home}/.local/bin"
    assert f'export PATH="{folder}:$PATH"' in installed.run("install").stderr
    inside = installed.run("install", PATH=f"{folder}:{os.environ['PATH']}")
    assert "PATH" not in inside.stderr


def test_another_command_that_the_shell_finds_first_is_reported(installed: Checkout, tmp_path: Path) -> None:
    (tmp_path / "parley").symlink_to("/bin/true")
    path = f"{tmp_path}:{installed.home}/.local/bin:{os.environ['PATH']}"
    assert f"your shell finds {tmp_path}/parley first" in installed.run("install", PATH=path).stderr


def test_another_folder_may_be_named(installed: Checkout, tmp_path: Path) -> None:
    assert installed.run("install", str(tmp_path / "with a space")).returncode == 0
    assert (tmp_path / "with a space/parley").resolve() == installed.root / ".venv/bin/parley"


@pytest.mark.parametrize("target", [None, "/usr/bin/other"])
def test_another_program_of_that_name_is_kept(installed: Checkout, tmp_path: Path, target: str | None) -> None:
    other = tmp_path / "bin/parley"
    other.parent.mkdir()
    if target is None:
        other.write_text("other")
    else:
        other.symlink_to(target)
    done = installed.run("install", str(other.parent))
    assert done.returncode == 1 and "is another program" in done.stderr and "make install BIN=FOLDER" in done.stderr
    assert other.read_text() == "other" if target is None else str(other.readlink()) == target


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("/bin/bash", 'eval "$(parley completion bash)"'),
        ("/usr/bin/zsh", 'eval "$(parley completion zsh)"'),
        ("/usr/bin/fish", "parley completion fish | source"),
    ],
)
def test_the_line_that_completes_commands_is_that_of_the_users_shell(
    installed: Checkout, shell: str, line: str
) -> None:
    assert line in installed.run("install", SHELL=shell).stderr
