"""How many random examples a test tries: few by default, many with `FUZZ=long` in the environment."""

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("FUZZ") == "long"
MORE = 500
"""Times as many examples as by default."""
EXAMPLES = 40
"""For a property that names no count of its own."""


def examples(count: int = EXAMPLES) -> settings:
    """For a property: other examples in every run."""
    return settings(max_examples=count * MORE if LONG else count, deadline=None)


def effort(count: int) -> settings:
    """For a fuzz test: the same examples in every run, other ones with `FUZZ=long`."""
    return settings(
        max_examples=count * MORE if LONG else count,
        derandomize=not LONG,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
