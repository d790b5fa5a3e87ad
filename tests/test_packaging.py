"""What the files around the code promise: locks, set-up, CI, image and compose."""

import functools
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.each_case import each_case

ROOT = Path(__file__).parent.parent
EXTRAS = ("guards", "otel", "postgres")
"""The extras that are for users: each has a lock of its own."""
EXTRA_LOCKS = tuple(f"requirements-{extra}.lock" for extra in EXTRAS)
LOCKS = (
    "requirements.lock",
    "requirements-compile.lock",
    "requirements-dev.lock",
    "requirements-release.lock",
    *EXTRA_LOCKS,
)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
TARGETS = ["serve", "install", "test", "check", "openapi", "lock", "format", "bench", "help"]
TARGETS += ["compile", "serve-compiled", "test-compiled"]


def lines(name: str) -> list[str]:
    """Logical lines of a file: continuations joined, comments and empty lines left out."""
    joined = (ROOT / name).read_text().replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def pins(lock: str) -> dict[str, str]:
    return dict(re.split("==|[ ;]", line, maxsplit=2)[:2] for line in lines(lock))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements}


def final_stage() -> dict[str, list[str]]:
    """Instructions of the Dockerfile's last stage, by keyword."""
    stage: dict[str, list[str]] = {}
    for line in lines("Dockerfile"):
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            stage = {}
        stage.setdefault(keyword, []).append(rest)
    return stage


@pytest.fixture
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services: dict[str, Any] = document["services"]
    return services


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_of_a_lock_is_pinned_with_a_hash(lock: str) -> None:
    assert [line for line in lines(lock) if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)] == []


class Machine(NamedTuple):
    """A Linux machine that a lock must hold for."""

    python: str
    processor: str

    def environment(self, extra: str = "") -> dict[str, str]:
        """What environment markers are evaluated against."""
        return default_environment() | {  # type: ignore[return-value]  # a TypedDict of str
            "implementation_name": "cpython",
            "implementation_version": self.python,
            "os_name": "posix",
            "platform_machine": self.processor,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": self.python,
            "python_version": self.python.rpartition(".")[0],
            "sys_platform": "linux",
            "extra": extra,
        }

    def needs(self, requirement: Requirement, extras: Iterable[str] = ("",)) -> bool:
        return requirement.marker is None or any(requirement.marker.evaluate(self.environment(one)) for one in extras)


MACHINES = [
    Machine(python, processor)
    for python in ("3.11.0", "3.11.2", "3.11.9", "3.12.0", "3.13.0", "3.14.0")
    for processor in ("x86_64", "aarch64")
]


def locked(lock: str) -> list[Requirement]:
    return [Requirement(line.partition(" --hash")[0]) for line in lines(lock)]


class Installed(NamedTuple):
    """What a distribution that is installed here says of itself."""

    version: str
    pythons: SpecifierSet
    requires: list[Requirement]


@functools.cache
def installed(name: str) -> Installed | None:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    pythons = SpecifierSet(found.metadata["Requires-Python"] or "")
    return Installed(found.version, pythons, [Requirement(one) for one in found.requires or []])


def gaps(roots: list[str], lock: str, machine: Machine) -> Iterator[str]:
    """What keeps pip from installing the roots on the machine from the lock alone.

    What a pinned version requires is read from its metadata where it is installed here; what is not installed here is
    taken to require nothing.
    """
    pinned = {canonicalize_name(pin.name): pin for pin in locked(lock) if machine.needs(pin)}
    wanted = [("pyproject.toml", requirement) for requirement in map(Requirement, roots) if machine.needs(requirement)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        by, requirement = wanted.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        pin = pinned.get(name)
        if pin is None:
            yield f"{by} needs {requirement}, which the lock does not have"
            continue
        version = str(pin.specifier).removeprefix("==")
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"{by} needs {requirement}, and the lock has {version}"
        dist = installed(name)
        if dist is None or (name, extras) in seen:
            continue
        seen.add((name, extras))
        assert dist.version == version, f"{name} {dist.version} is installed, {version} is locked"
        if not dist.pythons.contains(machine.python):
            yield f"{pin} needs Python {dist.pythons}"
        wanted += [(str(pin), one) for one in dist.requires if machine.needs(one, extras or {""})]


@each_case("machine", MACHINES, ids=str)
def test_the_runtime_lock_has_everything_that_a_machine_needs(machine: Machine) -> None:
    assert list(gaps(PROJECT["dependencies"], "requirements.lock", machine)) == []


@each_case("machine", MACHINES, ids=str)
def test_the_dev_lock_has_everything_that_a_machine_needs(machine: Machine) -> None:
    roots = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    assert list(gaps(roots, "requirements-dev.lock", machine)) == []


@each_case("machine", MACHINES, ids=str)
def test_the_compile_lock_has_everything_that_a_machine_needs(machine: Machine) -> None:
    assert list(gaps(PYPROJECT["dependency-groups"]["compile"], "requirements-compile.lock", machine)) == []


@each_case("machine", MACHINES, ids=str)
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_lock_of_an_extra_has_everything_that_the_extra_needs(extra: str, machine: Machine) -> None:
    assert list(gaps(PROJECT["optional-dependencies"][extra], f"requirements-{extra}.lock", machine)) == []


def test_every_extra_for_users_has_a_lock() -> None:
    assert {*EXTRAS} == PROJECT["optional-dependencies"].keys() - {"dev"}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_address_and_no_index(lock: str) -> None:
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted-host", (ROOT / lock).read_text())


def test_the_runtime_lock_pins_every_dependency() -> None:
    assert names(PROJECT["dependencies"]) <= pins("requirements.lock").keys()


def test_the_dev_lock_pins_every_tool() -> None:
    assert names(PROJECT["optional-dependencies"]["dev"]) <= pins("requirements-dev.lock").keys()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-compile.lock", *EXTRA_LOCKS])
def test_the_dev_lock_contains_the_others(lock: str) -> None:
    assert pins(lock).items() <= pins("requirements-dev.lock").items()


@pytest.mark.parametrize(
    "script",
    [
        ".ci/run",
        ".ci/image",
        "scripts/bootstrap",
        "scripts/check-openapi",
        "scripts/compile",
        "scripts/install",
        "scripts/lock",
        "scripts/test-compiled",
    ],
)
def test_a_script_is_executable(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize("target", ["check", "test"])
def test_ci_calls_make(target: str) -> None:
    assert any(line.startswith(f"stage make {target}") for line in lines(".ci/run"))


@pytest.mark.parametrize("target", TARGETS)
def test_make_help_lists_every_target(target: str) -> None:
    assert re.search(rf"^{target}:.* ## \w", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_image_does_not_run_as_root() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", final_stage()["USER"][-1])


def test_the_image_runs_the_gateway_without_a_shell() -> None:
    assert json.loads(final_stage()["CMD"][-1]) == ["parley", "serve"]


def test_the_health_check_needs_no_shell_and_is_a_module_of_the_gateway() -> None:
    command = json.loads(final_stage()["HEALTHCHECK"][-1].partition("CMD")[2])
    assert command == ["python", "-m", "app.commands.health"] and (ROOT / "app/commands/health.py").exists()


def test_the_image_is_labelled_with_the_projects_version() -> None:
    assert f'org.opencontainers.image.version="{PROJECT["version"]}"' in final_stage()["LABEL"][-1]


def test_the_licence_is_the_same_everywhere() -> None:
    assert PROJECT["license"] == "Apache-2.0" and PROJECT["license-files"] == ["LICENSE"]
    assert f'org.opencontainers.image.licenses="{PROJECT["license"]}"' in final_stage()["LABEL"][-1]
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"])
def test_a_page_at_the_top_links_only_to_files_that_exist(page: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_command_is_called_parley_and_like_the_distribution() -> None:
    assert PROJECT["name"] == "parley-gateway"
    assert PROJECT["scripts"] == {"parley": "app.cli:main", PROJECT["name"]: "app.cli:main"}


def test_the_image_gets_the_extras_that_its_build_argument_names(compose: dict[str, Any]) -> None:
    dockerfile = " ".join(lines("Dockerfile"))
    for command in ("scripts/bootstrap compile", "trim.py", "check_imports.py --compiled"):
        assert f"{command} $EXTRAS" in dockerfile
    assert all(lock in next(line for line in lines("Dockerfile") if line.startswith("COPY")) for lock in EXTRA_LOCKS)
    assert {service["build"]["args"]["EXTRAS"] for service in compose.values() if "build" in service} == {
        "${PARLEY_EXTRAS:-}"
    }


def test_compose_starts_one_gateway_unless_it_is_scaled(compose: dict[str, Any]) -> None:
    assert [name for name, service in compose.items() if "profiles" not in service] == ["gateway"]


def test_the_scale_profile_has_two_gateways_and_what_belongs_to_them(compose: dict[str, Any]) -> None:
    scaled = {name for name, service in compose.items() if service.get("profiles") == ["scale"]}
    assert scaled == {"gateway-1", "gateway-2", "redis", "nginx", "prometheus", "grafana"}


def test_every_service_is_read_only_and_without_privileges(compose: dict[str, Any]) -> None:
    hardened = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    assert all(hardened.items() <= service.items() for service in compose.values())


def test_the_image_keeps_its_cache_and_its_totals_in_the_volume() -> None:
    variables = final_stage()["ENV"][-1].split()
    assert {"PARLEY_CACHE__URL=sqlite:////data/cache.db", "PARLEY_USAGE__URL=sqlite:////data/usage.db"} <= {*variables}
    assert json.loads(final_stage()["VOLUME"][-1]) == ["/data"]


def test_gateways_of_the_scale_profile_share_one_redis(compose: dict[str, Any]) -> None:
    shared = {compose[name]["environment"]["PARLEY_CACHE__URL"] for name in ("gateway-1", "gateway-2")}
    assert shared == {"redis://redis:6379/0"}
    assert "PARLEY_CACHE__URL" not in compose["gateway"]["environment"]


def test_gateways_of_the_scale_profile_add_to_the_same_totals(compose: dict[str, Any]) -> None:
    assert ["usage:/data" in compose[name]["volumes"] for name in ("gateway-1", "gateway-2")] == [True, True]


def test_prometheus_reads_the_metrics_of_each_gateway_of_the_scale_profile(compose: dict[str, Any]) -> None:
    (job,) = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]
    ports = {name: compose[name]["environment"]["PARLEY_METRICS__PORT"] for name in ("gateway-1", "gateway-2")}
    assert job["static_configs"] == [{"targets": [f"{name}:{port}" for name, port in ports.items()]}]


def test_nginx_passes_streams_unbuffered() -> None:
    directives = {line.strip() for line in lines("deploy/nginx.conf")}
    assert {"proxy_buffering off;", "proxy_http_version 1.1;"} <= directives


def test_nginx_never_repeats_a_request_that_may_have_had_an_effect() -> None:
    retried = [line for line in lines("deploy/nginx.conf") if "proxy_next_upstream " in line]
    assert retried and not any("non_idempotent" in line for line in retried)
