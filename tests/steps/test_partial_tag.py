"""The end of a text that could become a tag."""

from app.steps.partial_tag import partial_tag_length
from hypothesis import given
from hypothesis import strategies as st


@given(
    st.text(st.sampled_from("ab"), max_size=9),
    st.lists(st.text(st.sampled_from("ab"), min_size=1, max_size=6), max_size=3),
)
def test_a_partial_tag_is_the_longest_end_that_begins_a_tag(text: str, tags: list[str]) -> None:
    lengths = [size for tag in tags for size in range(1, len(tag)) if text.endswith(tag[:size])]
    assert partial_tag_length(text, tags) == max(lengths, default=0)
