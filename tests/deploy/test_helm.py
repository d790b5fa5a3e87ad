"""deploy/helm/parley: what the chart renders, and what it refuses. Skipped where neither helm nor go is installed."""

import json
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from app.config.settings import Settings

from tests.deploy.helm_chart import CHART, RenderError, Resource, check_values, read_yaml, render
from tests.each_case import each_case

ROOT = Path(__file__).parents[2]
KEYS = {"keys": {"values": {"me": "a-key-of-16-characters", "team": "sha256:" + 64 * "a"}}}
ALL: dict[str, Any] = {
    **KEYS,
    "config": 'default_model = "m"\n',
    "upstream": {"url": "http://vllm:8000/v1", "kind": "vllm", "existingSecret": "vllm"},
    "redis": {"url": "redis://redis:6379/0"},
    "state": {"existingSecret": "postgres"},
    "ingress": {"enabled": True, "className": "nginx", "hosts": ["chat.example.com"], "tls": [{"secretName": "tls"}]},
    "autoscaling": {"enabled": True},
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "env": [{"name": "PARLEY_SERVER__ALLOWED_HOSTS", "value": "chat.example.com"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "networkPolicy": {"from": [{"podSelector": {}}], "metricsFrom": [{"namespaceSelector": {}}]},
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "high",
    "podLabels": {"team": "chat"},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"kubernetes.io/arch": "arm64"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}


@cache
def render_all() -> dict[tuple[str, str], Resource]:
    return render(ALL)


def pod(resources: dict[tuple[str, str], Resource]) -> dict[str, Any]:
    found: dict[str, Any] = resources["Deployment", "parley"]["spec"]["template"]["spec"]
    return found


def container(resources: dict[tuple[str, str], Resource]) -> dict[str, Any]:
    (one,) = pod(resources)["containers"]
    found: dict[str, Any] = one
    return found


def environment(resources: dict[tuple[str, str], Resource]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(resources)["env"]}


def test_the_version_of_the_chart_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    chart = read_yaml("Chart.yaml")
    assert chart["appVersion"] == chart["version"] == project["version"]


def test_the_values_of_the_chart_keep_to_its_schema() -> None:
    check_values(read_yaml("values.yaml"))


@each_case(
    "values",
    [
        {"replica": 3},
        {"image": {"tags": "1"}},
        {"image": {"digest": "latest"}},
        {"keys": {"values": {"me": "short"}}},
        {"keys": {"values": {"a:b": "a-key-of-16-characters"}}},
        {"redis": {"url": "memcached://host"}},
        {"state": {"url": "sqlite:////data/state.db"}},
        {"state": {"volume": {"size": "big"}}},
        {"shutdown": {"drainSeconds": 0}},
    ],
)
def test_the_schema_refuses_a_value_that_cannot_be_meant(values: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check_values(values)


def test_without_keys_the_chart_says_what_to_set() -> None:
    with pytest.raises(RenderError, match="keys.existingSecret"):
        render({})
    for values in ({"allowAnonymous": True}, {"keys": {"inConfig": True}}, {"keys": {"existingSecret": "mine"}}):
        assert ("Deployment", "parley") in render(values)


def test_the_kinds_are_those_that_the_values_select() -> None:
    always = {"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}
    assert {kind for kind, _ in render({"keys": {"existingSecret": "mine"}})} == always
    more = {"HorizontalPodAutoscaler", "Ingress", "Secret", "ServiceMonitor"}
    assert {kind for kind, _ in render_all()} == always | more


def test_another_release_has_other_names_and_selects_its_own_pods_only() -> None:
    resources = render(KEYS, release="second")
    assert {name for _, name in resources} == {"second-parley", "second-parley-metrics", "second-parley-keys"}
    selector = resources["Service", "second-parley"]["spec"]["selector"]
    assert selector["app.kubernetes.io/instance"] == "second"


def test_every_selector_matches_the_pods() -> None:
    resources = render_all()
    labels = resources["Deployment", "parley"]["spec"]["template"]["metadata"]["labels"]
    selectors = [resources["Deployment", "parley"]["spec"]["selector"]["matchLabels"]]
    selectors += [resources["Service", name]["spec"]["selector"] for name in ("parley", "parley-metrics")]
    selectors += [resources["NetworkPolicy", "parley"]["spec"]["podSelector"]["matchLabels"]]
    selectors += [resources["PodDisruptionBudget", "parley"]["spec"]["selector"]["matchLabels"]]
    selectors += [one["labelSelector"]["matchLabels"] for one in pod(resources)["topologySpreadConstraints"]]
    assert len(selectors) == 7 and all(selector.items() <= labels.items() for selector in selectors)
    monitor = resources["ServiceMonitor", "parley"]["spec"]["selector"]["matchLabels"]
    assert monitor.items() <= resources["Service", "parley-metrics"]["metadata"]["labels"].items()
    assert not monitor.items() <= resources["Service", "parley"]["metadata"]["labels"].items()


def test_the_probes_ask_the_endpoints_for_health() -> None:
    paths = json.loads((ROOT / "openapi/openapi.json").read_text("utf-8"))["paths"]
    one = container(render_all())
    probes = {kind: one[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert probes == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    assert {*probes.values()} <= {*paths}


@each_case("pre_stop, drain", [(5, 120), (0, 30), (20, 600)])
def test_a_pod_may_drain_before_it_is_killed(pre_stop: int, drain: int) -> None:
    resources = render({**KEYS, "shutdown": {"preStopSeconds": pre_stop, "drainSeconds": drain}})
    assert environment(resources)["PARLEY_SERVER__DRAIN_SECONDS"] == str(drain)
    assert container(resources)["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", str(pre_stop)]
    assert pod(resources)["terminationGracePeriodSeconds"] == pre_stop + drain + 15


def test_every_variable_is_one_that_the_gateway_reads() -> None:
    for variable in environment(render_all()):
        section, _, field = variable.removeprefix("PARLEY_").lower().partition("__")
        if field:
            assert field in getattr(Settings.model_fields[section].annotation, "model_fields", ()), variable
        else:
            assert section in ("config", "api_keys", "upstream_url", "upstream_api_key", "upstream_kind"), variable


def test_the_configuration_is_a_file_of_the_gateway() -> None:
    mounts = {one["name"]: one["mountPath"] for one in container(render_all())["volumeMounts"]}
    config = render_all()["ConfigMap", "parley"]["data"]["parley.toml"]
    assert f"{mounts['config']}/parley.toml" == environment(render_all())["PARLEY_CONFIG"]
    assert tomllib.loads(config) == {"default_model": "m"}


def test_a_changed_configuration_or_key_restarts_the_pods() -> None:
    def annotations(values: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = render(values)["Deployment", "parley"]["spec"]["template"]["metadata"]["annotations"]
        return found

    first = annotations(KEYS)
    other_config = annotations({**KEYS, "config": "# other\n"})
    other_keys = annotations({"keys": {"values": {"me": "another-key-of-more-than-16"}}})
    assert first["checksum/config"] != other_config["checksum/config"]
    assert first["checksum/keys"] != other_keys["checksum/keys"]
    assert first["checksum/config"] == other_keys["checksum/config"]


def test_keys_are_in_a_secret_and_nowhere_else() -> None:
    secret = render_all()["Secret", "parley-keys"]
    assert secret["stringData"]["keys"] == f"me:a-key-of-16-characters,team:sha256:{64 * 'a'}"
    assert environment(render_all())["PARLEY_API_KEYS"] == {"secretKeyRef": {"name": "parley-keys", "key": "keys"}}
    others = {name: one for name, one in render_all().items() if name[0] != "Secret"}
    assert "a-key-of-16-characters" not in json.dumps([*others.values()])


def test_the_container_has_no_privileges_and_writes_only_to_its_volumes() -> None:
    assert container(render_all())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(render_all())["securityContext"]["runAsNonRoot"] is True
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert user and pod(render_all())["securityContext"]["runAsUser"] == int(user[1])


def test_the_autoscaler_follows_open_replies_and_the_cpu() -> None:
    spec = render_all()["HorizontalPodAutoscaler", "parley"]["spec"]
    name = spec["metrics"][0]["pods"]["metric"]["name"]
    assert f"| `{name}` | gauge |" in (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    assert spec["metrics"][1]["resource"]["name"] == "cpu"
    assert "replicas" not in render_all()["Deployment", "parley"]["spec"]
    only_cpu = render({**KEYS, "autoscaling": {"enabled": True, "openReplies": 0}})
    assert [one["type"] for one in only_cpu["HorizontalPodAutoscaler", "parley"]["spec"]["metrics"]] == ["Resource"]
    with pytest.raises(RenderError, match="autoscaling.openReplies"):
        render({**KEYS, "autoscaling": {"enabled": True, "openReplies": 0, "cpuPercent": 0}})


def test_an_ingress_without_a_name_is_refused() -> None:
    with pytest.raises(RenderError, match="ingress.hosts"):
        render({**KEYS, "ingress": {"enabled": True}})


def test_the_image_is_that_of_the_version_a_tag_or_a_digest() -> None:
    version, digest = read_yaml("Chart.yaml")["appVersion"], f"sha256:{64 * '0'}"
    images = [container(render({**KEYS, "image": image}))["image"] for image in ({}, {"tag": "2"}, {"digest": digest})]
    assert images == [f"parley:{version}", "parley:2", f"parley@{digest}"]


@pytest.mark.parametrize("values", [KEYS, ALL], ids=["smallest", "everything"])
def test_kubernetes_accepts_what_is_rendered(values: dict[str, Any], tmp_path: Path) -> None:
    """kubernetes-validate carries the schemas of Kubernetes' own API."""
    validator = shutil.which("kubernetes-validate")
    if validator is None:
        pytest.skip("kubernetes-validate is not installed")
    for number, ((kind, _), resource) in enumerate(render(values).items()):
        if kind != "ServiceMonitor":  # it belongs to an operator
            (tmp_path / f"{number}.json").write_text(json.dumps(resource), "utf-8")
    command = [validator, "--strict", *sorted(map(str, tmp_path.iterdir()))]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_helm_finds_no_fault() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    command = [helm, "lint", "--strict", str(CHART), "--set", "allowAnonymous=true"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_the_user_id_can_be_left_to_the_cluster() -> None:
    assert pod(render(KEYS))["securityContext"]["runAsUser"] == 10001
    security = pod(render({**KEYS, "userId": None}))["securityContext"]
    assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@each_case(("values", "replicas"), [({}, "2"), ({"replicas": 1}, "1"), ({"autoscaling": {"enabled": True}}, "20")])
def test_a_gateway_knows_how_many_pods_there_are(values: dict[str, Any], replicas: str) -> None:
    assert environment(render({**KEYS, **values}))["PARLEY_SERVER__REPLICAS"] == replicas


def test_the_state_is_in_a_postgres_of_a_url_or_a_secret() -> None:
    names = ("PARLEY_STATE__URL", "PARLEY_USAGE__URL")
    url = "postgresql://parley@postgres/parley"
    secret = {"secretKeyRef": {"name": "mine", "key": "url"}}
    for state, want in (({"url": url}, url), ({"url": url, "existingSecret": "mine"}, secret)):
        found = environment(render({**KEYS, "state": state}))
        assert [found[name] for name in names] == [want, want]
    assert not {*names} & {*environment(render(KEYS))}


def test_one_pod_may_keep_its_state_on_a_volume() -> None:
    volume = {"enabled": True, "size": "20Gi", "storageClassName": "fast"}
    resources = render({**KEYS, "replicas": 1, "state": {"volume": volume}})
    claim = resources["PersistentVolumeClaim", "parley"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    (data,) = [one for one in pod(resources)["volumes"] if one["name"] == "data"]
    assert data == {"name": "data", "persistentVolumeClaim": {"claimName": "parley"}}
    assert resources["Deployment", "parley"]["spec"]["strategy"] == {"type": "Recreate"}
    assert environment(resources)["PARLEY_STATE__URL"] == "sqlite:////data/state.db"
    own = render({**KEYS, "replicas": 1, "state": {"volume": {**volume, "existingClaim": "mine"}}})
    assert ("PersistentVolumeClaim", "parley") not in own
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}} in pod(own)["volumes"]


@each_case(
    ("values", "words"),
    [
        ({}, "for one pod"),
        ({"replicas": 1, "autoscaling": {"enabled": True}}, "for one pod"),
        ({"replicas": 1, "state": {"url": "postgresql://a"}}, "in PostgreSQL or on a volume"),
    ],
)
def test_a_volume_is_refused_where_it_cannot_hold_the_state(values: dict[str, Any], words: str) -> None:
    state = {"volume": {"enabled": True}, **values.get("state", {})}
    with pytest.raises(RenderError, match=words):
        render({**KEYS, **values, "state": state})


def test_the_alert_rules_are_a_resource_of_their_own() -> None:
    assert ("PrometheusRule", "parley") not in render(KEYS)
    values = {**KEYS, "metrics": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}}}
    rule = render(values)["PrometheusRule", "parley"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8"))
