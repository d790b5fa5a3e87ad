"""The limits of one request."""

from typing import Any

from app.formats.request_limits import _find_invalid_values, find_invalid_values
from hypothesis import given
from hypothesis import strategies as st

values: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["a", None, True, 1, 1.5, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, float("inf"), [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=8,
)


@given(values, st.integers(0, 4))
def test_invalid_values_are_found_out_before_they_are_listed(value: Any, max_nesting: int) -> None:
    expected = list(_find_invalid_values(value, "v", max_nesting))
    assert list(find_invalid_values(value, "v", max_nesting)) == expected
