"""Cases of the kind of the golden ones, as they are and with each text of the model server cut at every character."""

from pathlib import Path

import pytest

from tests.coding_agents.golden_runner import compare, run_case
from tests.coding_agents.related import CASES


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_related_case_holds(name: str, cut: bool, tmp_path: Path) -> None:
    case = CASES[name]
    assert compare(case, run_case(case, tmp_path, list) if cut else run_case(case, tmp_path)) == []
