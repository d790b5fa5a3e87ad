"""docker-compose.yml and the files that it mounts, read by the programs that read them in containers."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from app.config.load import load
from app.config.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GATEWAYS = ("gateway", "gateway-1", "gateway-2")


def find_mounts(service: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield (source, target, whether it is read-only); a default replaces a variable."""
    for volume in service.get("volumes", ()):
        if isinstance(volume, str):
            source, target, *mode = volume.split(":")
            yield source, target, mode == ["ro"]
        else:
            yield re.sub(r"\$\{\w+:-(.*)\}", r"\1", volume["source"]), volume["target"], volume.get("read_only", False)


def test_every_file_that_is_mounted_exists_and_is_read_only() -> None:
    mounts = [mount for service in SERVICES.values() for mount in find_mounts(service)]
    files = [mount for mount in mounts if mount[0].startswith(".")]
    assert len(files) >= 6 and all((ROOT / source).exists() and read_only for source, _, read_only in files)


def test_every_volume_is_declared_and_used() -> None:
    mounts = {source for service in SERVICES.values() for source, _, _ in find_mounts(service)}
    assert {mount for mount in mounts if not mount.startswith(".")} == {*COMPOSE["volumes"]}


def test_every_port_is_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 3 and all(re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\d+\}:\d+", port) for port in ports)


def test_every_service_has_a_health_check_without_a_shell() -> None:
    tests = {name: service["healthcheck"]["test"] for name, service in SERVICES.items()}
    assert tests and all(test[0] == "CMD" and len(test) > 1 for test in tests.values())


def test_every_image_that_is_not_built_here_has_a_pinned_tag() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    assert len(images) == 4 and all(re.fullmatch(r"[\w/-]+:v?\d+\.\d+[\w.-]*", image) for image in images)


def test_a_service_waits_for_health_only_where_there_is_a_check() -> None:
    for service in SERVICES.values():
        needed = service.get("depends_on", {})
        assert {*needed} <= {*SERVICES}


def test_the_mounted_configuration_is_valid_and_serves_the_demo_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PARLEY_")]:
        monkeypatch.delenv(name)
    (source,) = {source for source, target, _ in find_mounts(SERVICES["gateway"]) if target == "/etc/parley"}
    assert SERVICES["gateway"]["environment"]["PARLEY_CONFIG"] == "/etc/parley/parley.toml"
    assert load(path=ROOT / source / "parley.toml").demo


@pytest.mark.parametrize("name", GATEWAYS)
def test_every_variable_of_a_gateway_is_one_that_it_reads(name: str) -> None:
    for variable, value in SERVICES[name]["environment"].items():
        if value == "":
            continue
        section, _, field = variable.removeprefix("PARLEY_").lower().partition("__")
        if field:
            kind = Settings.model_fields[section].annotation
            assert field in getattr(kind, "model_fields", ()), variable
        else:
            assert section in ("config", "api_keys", "upstream_url", "upstream_api_key", "upstream_kind"), variable


@pytest.mark.parametrize("name", GATEWAYS)
def test_what_a_file_env_holds_for_compose_itself_is_hidden_from_a_gateway(name: str) -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    assert SERVICES[name]["env_file"] == [{"path": ".env", "required": False}]
    hidden = {variable for variable, value in SERVICES[name]["environment"].items() if value == ""}
    assert hidden == set(re.findall(r"\$\{(PARLEY_\w+)", text))
    assert load(dict.fromkeys(hidden, "")) == load({})


def test_two_gateways_keep_their_state_in_a_file_that_both_share() -> None:
    """Not in Redis, which may evict it."""
    for name in GATEWAYS[1:]:
        environment = SERVICES[name]["environment"]
        urls = {environment[f"PARLEY_{section}__URL"] for section in ("STATE", "USAGE")}
        assert urls == {"${PARLEY_STATE_URL:-sqlite:////data/usage.db}"}
        assert ("usage", "/data", False) in find_mounts(SERVICES[name])


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_has_time_to_drain_before_it_is_killed(name: str) -> None:
    server = Settings().server
    settle = float(SERVICES[name]["environment"].get("PARLEY_SERVER__SETTLE_SECONDS", server.settle_seconds))
    grace = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert grace >= settle + server.drain_seconds + 10


def test_prometheus_accepts_its_configuration() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    ended = subprocess.run([promtool, "check", "config", "deploy/prometheus.yml"], cwd=ROOT, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_compose_accepts_the_file() -> None:
    """check-jsonschema carries the schema of the Compose specification."""
    validator = shutil.which("check-jsonschema")
    if validator is None:
        pytest.skip("check-jsonschema is not installed")
    command = [validator, "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_grafana_finds_the_dashboard_and_its_data_source() -> None:
    mounts = {target: source for source, target, _ in find_mounts(SERVICES["grafana"])}
    provider = yaml.safe_load((ROOT / "deploy/grafana/provisioning/dashboards/parley.yml").read_text("utf-8"))
    path = provider["providers"][0]["options"]["path"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(f"{path}/") and (ROOT / mounts[path] / home.removeprefix(f"{path}/")).exists()
    source = yaml.safe_load((ROOT / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text("utf-8"))
    dashboard = json.loads((ROOT / mounts[path] / "parley.json").read_text("utf-8"))
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert variables["datasource"]["query"] == source["datasources"][0]["type"] == "prometheus"
    assert source["datasources"][0]["isDefault"] and source["datasources"][0]["url"] == "http://prometheus:9090"
