"""The queries of the Grafana dashboard name metrics and labels that `/metrics` has."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.observe.known_metrics import list_metrics

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/dashboards/parley.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
SCRAPED = {"job", "instance"}
"""The labels that Prometheus adds."""


async def metrics() -> dict[str, set[str]]:
    """The labels of every metric, by its name."""
    labels = {name: {*labels} for name, (_, labels) in (await list_metrics()).items()}
    return {**labels, "parley_worker_up": {"worker"}}


def test_every_query_names_metrics_and_labels_that_there_are() -> None:
    known = asyncio.run(metrics())
    assert len(QUERIES) > 20
    for query in QUERIES:
        names = re.findall(r"\b((?:parley|process)_\w+)\{", query)
        assert len(names) == query.count("{"), query
        for name in names:
            family = name.removesuffix("_bucket")
            assert family in known, query
            given = {*re.findall(r"(\w+)!?=~?\"", query)}
            for group in re.findall(r"by \(([^)]*)\)", query):
                given |= {label.strip() for label in group.split(",")}
            assert given <= known[family] | SCRAPED | ({"le"} if name != family else set()), query


def test_every_metric_of_requests_is_on_the_dashboard() -> None:
    shown = " ".join(QUERIES)
    for name in asyncio.run(metrics()):
        if name.startswith("parley_") and name != "parley_build_info":
            assert name in shown, name


def test_every_panel_uses_the_data_source_that_is_chosen_and_no_two_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        box = panel["gridPos"]
        cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert not cells & taken and box["x"] + box["w"] <= 24, panel["title"]
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_understands_every_query_and_the_configuration(tmp_path: Path) -> None:
    rules = [
        {"record": f"query_{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(QUERIES)
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    for command in (["rules", str(tmp_path / "rules.yml")], ["config", str(ROOT / "deploy/prometheus.yml")]):
        done = subprocess.run(["promtool", "check", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
