"""A translation keeps everything of a conversation, or reports the loss."""

import pytest
from app.formats import FORMATS

from tests.conversations.features import FEATURES, Feature, verdict
from tests.conversations.sample_conversations import NO_NOTES
from tests.each_case import each_case

each = each_case("feature", FEATURES, ids=lambda feature: feature.name)
each_form = each_case("form", FORMATS)


@each
@each_form
def test_nothing_is_lost_without_a_warning(feature: Feature, form: str) -> None:
    assert verdict(feature, form) != "lost"


@each
@each_form
def test_a_warning_is_given_only_where_something_is_lost_or_shown_otherwise(feature: Feature, form: str) -> None:
    assert verdict(feature, form) != "field, warned"


@pytest.mark.parametrize("form", sorted(set(FORMATS) - NO_NOTES))
def test_a_format_with_a_place_for_notes_loses_nothing_but_order(form: str) -> None:
    lost = [feature.name for feature in FEATURES if verdict(feature, form) == "lost, warned"]
    assert lost == (["place of what a user says between call and result"] if form == "agentscope2" else [])
