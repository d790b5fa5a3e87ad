"""Renders deploy/helm/parley: with helm where it is installed, else with Go's own templates, which helm uses."""

import atexit
import copy
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy/helm/parley"
RENDERER = Path(__file__).parent / "helm_render.go"
Resource = dict[str, Any]


class RenderError(Exception):
    """The chart refuses its values; the text is its message."""


def read_yaml(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((CHART / name).read_text("utf-8"))
    return document


def check_values(values: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError for values that the chart's schema refuses."""
    jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text("utf-8"))).validate(values)


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def render(values: dict[str, Any], release: str = "parley") -> dict[tuple[str, str], Resource]:
    """Return the resources by (kind, name). Raises RenderError.

    Skips the test where neither helm nor go is installed.
    """
    text = _run_helm(values, release) if shutil.which("helm") else _run_go(values, release)
    resources = [resource for resource in yaml.safe_load_all(text) if resource]
    named = {(one["kind"], one["metadata"]["name"]): one for one in resources}
    assert len(named) == len(resources)
    return named


def _run_helm(values: dict[str, Any], release: str) -> str:
    command = ["helm", "template", release, str(CHART), "--namespace", "chat", "--values", "-"]
    return _run(command, json.dumps(values))


def _run_go(values: dict[str, Any], release: str) -> str:
    program = _build_renderer()
    if program is None:
        pytest.skip("neither helm nor go is installed (Debian: apt-get install golang-go)")
    merged = merge(read_yaml("values.yaml"), values)
    check_values(merged)
    chart = {key[0].upper() + key[1:]: value for key, value in read_yaml("Chart.yaml").items()}
    data = {
        "Values": merged,
        "Chart": chart,
        "Release": {"Name": release, "Namespace": "chat", "Service": "Helm"},
    }
    return _run([str(program), str(CHART)], json.dumps(data))


@cache
def _build_renderer() -> Path | None:
    go = shutil.which("go")
    if go is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="parley-helm-"))
    atexit.register(shutil.rmtree, folder)
    environ = os.environ | {
        "GO111MODULE": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "GOCACHE": str(folder / "cache"),
    }
    command = [go, "build", "-o", str(folder / "render"), str(RENDERER)]
    subprocess.run(command, env=environ, check=True, timeout=300, cwd=folder)
    return folder / "render"


def _run(command: list[str], data: str) -> str:
    ended = subprocess.run(command, input=data, capture_output=True, text=True, timeout=60)
    if ended.returncode:
        raise RenderError(ended.stderr)
    return ended.stdout
