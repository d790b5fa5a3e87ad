"""The warnings of a reply."""

from app.steps.tool_parsers.warnings import Warnings


def test_a_warning_is_told_once_and_in_the_order_of_the_first() -> None:
    warnings = Warnings()
    for text in ("a call was cut", "a name is unknown", "a call was cut"):
        warnings.add(text)
    assert warnings.texts == ["a call was cut", "a name is unknown"]
