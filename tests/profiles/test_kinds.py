"""Each fact about a kind of server says why it is so and who says so."""

import re

from app.profiles import KINDS, Profile
from app.profiles.kinds import FACTS, UNVERIFIED, Fact

from tests.each_case import each_case

ROWS = [(kind, field, fact) for kind, facts in FACTS.items() for field, fact in facts.items()]
SOURCES = (
    r"(?:[a-z0-9-]+\.)+[a-z]+/\S+",  # a page
    r"[\w.-]+/[\w.-]+ (?:issues?|PR) \d+",  # of a public project
    r"[\w.-]+/[\w.-]+, [\w./-]+",  # a file of a repository
    r"[a-z-]+ \d+\.\d+(?:\.\d+)?, [\w./-]+",  # a file of a package
    r"run by hand, .*\d{4}-\d{2}-\d{2}",
    r"(?:Alibaba Cloud Model Studio|docs\.x\.ai), [\w -]+",  # a guide
)


@each_case(("kind", "field", "fact"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_fact_has_a_reason_and_a_source_and_is_no_default(kind: str, field: str, fact: Fact) -> None:
    assert fact.why, (kind, field)
    assert fact.source == UNVERIFIED or re.match("|".join(SOURCES), fact.source), (kind, field, fact.source)
    is_default = getattr(KINDS[kind], field) == getattr(Profile(), field)
    assert is_default == (kind in ("gemini", "vertex") and field == "replay_extra_content"), (kind, field)


def test_a_profile_of_a_kind_has_no_field_without_a_fact() -> None:
    for kind, profile in KINDS.items():
        assert profile.model_fields_set == FACTS[kind].keys()


def test_the_facts_without_a_source_become_fewer() -> None:
    assert len({id(fact) for _, _, fact in ROWS if fact.source == UNVERIFIED}) <= 3
