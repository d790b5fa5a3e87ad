"""What an alert says, and what tells it from others."""

from app.alerts.conditions import KINDS, make_condition


def test_a_fingerprint_depends_on_the_name_and_the_labels_alone() -> None:
    one = make_condition("ParleyRedisDown", {"use": "cache"})
    assert one.fingerprint == make_condition("ParleyRedisDown", {"use": "cache"}, {"x": 1}).fingerprint
    assert len(one.fingerprint) == 16 and one.fingerprint == "".join(one.fingerprint.split())
    others = [
        make_condition("ParleyRedisDown", {"use": "limits"}),
        make_condition("ParleyRedisDown"),
        make_condition("ParleyUpstreamUnavailable", {"use": "cache"}),
        make_condition("ParleyRedisDown", {"use": "\ud800"}),
    ]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_labels_have_the_name_and_the_severity() -> None:
    condition = make_condition("ParleyRedisDown", {"use": "cache"})
    assert condition.all_labels == {"alertname": "ParleyRedisDown", "severity": "critical", "use": "cache"}
    assert condition.runbook == "docs/operate/alerts.md#parleyredisdown"
    assert condition.summary == "The gateway serves without Redis (cache)."


def test_names_of_kinds_are_their_keys() -> None:
    assert all(name == kind.name and name.startswith("Parley") for name, kind in KINDS.items())
