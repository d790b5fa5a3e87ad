"""What receivers of alerts get."""

import re
from pathlib import Path
from typing import Any

import yaml
from app.alerts.bodies import MAX_SLACK_CHARACTERS, write_bodies
from app.alerts.conditions import KINDS, make_condition
from app.alerts.tracker import Alert

ROOT = Path(__file__).parents[2]
START = 1_800_000_000.0
DOWN = Alert(make_condition("ParleyUpstreamUnavailable", {"upstream": "u"}), START)
ENDED = Alert(make_condition("ParleyRedisDown", {"use": "cache"}), START, START + 60)


def test_alertmanagers_body_has_its_fields() -> None:
    (body,) = write_bodies("alertmanager", "ops", [DOWN, ENDED], "https://parley.example.com")
    alerts: list[dict[str, Any]] = body.pop("alerts")
    assert body == {
        "version": "4",
        "groupKey": "{}:parley/ops",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "ops",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "https://parley.example.com",
    }
    assert alerts[0] == {
        "status": "firing",
        "labels": {"alertname": "ParleyUpstreamUnavailable", "severity": "warning", "upstream": "u"},
        "annotations": {
            "summary": "The model server u gets no requests.",
            "runbook": "docs/operate/alerts.md#parleyupstreamunavailable",
        },
        "startsAt": "2027-01-15T08:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "https://parley.example.com",
        "fingerprint": DOWN.condition.fingerprint,
    }
    assert (alerts[1]["status"], alerts[1]["endsAt"]) == ("resolved", "2027-01-15T08:01:00Z")
    (of_one,) = write_bodies("alertmanager", "ops", [ENDED], "")
    assert of_one["status"] == "resolved" and of_one["commonLabels"]["use"] == "cache"


def test_slack_gets_a_bounded_text_in_which_nothing_is_markup() -> None:
    odd = Alert(make_condition("ParleyUpstreamUnavailable", {"upstream": "<!channel> & co"}), START)
    (body,) = write_bodies("slack", "ops", [odd, ENDED], "")
    first, second = body["text"].split("\n")
    assert first == (
        "*FIRING* ParleyUpstreamUnavailable (warning): The model server &lt;!channel&gt; &amp; co gets no requests."
    )
    assert second.startswith("*RESOLVED* ParleyRedisDown (critical): ")
    (long,) = write_bodies("slack", "ops", [odd] * 100, "")
    assert len(long["text"]) == MAX_SLACK_CHARACTERS and long["text"].endswith("…")


def test_json_is_one_object_for_each_alert() -> None:
    first, second = write_bodies("json", "ops", [DOWN, ENDED], "")
    assert first == {
        "alert": "ParleyUpstreamUnavailable",
        "status": "firing",
        "severity": "warning",
        "labels": {"upstream": "u"},
        "summary": "The model server u gets no requests.",
        "runbook": "docs/operate/alerts.md#parleyupstreamunavailable",
        "starts_at": "2027-01-15T08:00:00Z",
        "ends_at": None,
        "fingerprint": DOWN.condition.fingerprint,
    }
    assert (second["status"], second["ends_at"]) == ("resolved", "2027-01-15T08:01:00Z")


def test_each_alert_has_a_section_and_is_as_grave_and_as_slow_as_that_of_prometheus() -> None:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8"))["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    page = (ROOT / "docs/operate/alerts.md").read_text("utf-8")
    sections = set(re.findall(r"^##+ (Parley\w+)$", page, re.MULTILINE))
    for name, kind in KINDS.items():
        assert name in sections
        if name in rules:
            assert rules[name]["labels"]["severity"] == kind.severity
            assert rules[name]["for"] == f"{kind.wait_seconds / 60:g}m"
