"""What the client of a refused reply is told."""

from app.chat.policy import PolicyRefusal


def test_the_sentence_names_the_guard_and_its_reason_with_one_full_stop() -> None:
    assert PolicyRefusal("house", "zebra").sentence == "The policy house refused this: zebra."
    assert PolicyRefusal("house", "No zebras.").sentence == "The policy house refused this: No zebras."
