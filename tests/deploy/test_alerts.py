"""The alert rules: Prometheus understands them, they fire when they should, and a page says what to do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/alerts.yml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")])
def test_promtool_accepts_the_rules(command: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *command], cwd=RULES.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_section_that_says_what_to_do() -> None:
    page = (ROOT / "docs/operate/alerts.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (Parley\w+)\n\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    assert [*sections] == [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        assert rule["annotations"]["runbook"] == f"docs/operate/alerts.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
        section = sections[rule["alert"]]
        assert ("**Means:**" in section and "**Do:**" in section) or "The same as" in section


def test_each_alert_reads_metrics_that_the_gateway_has() -> None:
    known = set(
        re.findall(r"^\| `(parley_\w+)`", (ROOT / "docs/reference/metrics.md").read_text("utf-8"), re.MULTILINE)
    )
    for rule in ALERTS:
        used = set(re.findall(r"parley_\w+", rule["expr"]))
        assert used and {name.removesuffix("_bucket") for name in used} <= known


def test_the_chart_has_the_same_rules() -> None:
    assert (ROOT / "deploy/helm/parley/files/alerts.yml").read_bytes() == RULES.read_bytes()
