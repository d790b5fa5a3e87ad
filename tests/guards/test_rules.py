"""What a hash of a configuration tells apart: under it masked conversations and stored replies are known."""

from typing import Any

from app.guards.guards import MAX_SELECTED, Guards, make_set
from app.guards.rules import GuardRule, MaskingRule
from app.upstream.http.transport import PushTransport
from msgspec.structs import replace

from tests.each_case import each_case

MASKING = MaskingRule(bytes(32), patterns={"staff": "ST-[0-9]+"})
MASK = GuardRule("pii", ("email", "staff"))
REDACT = GuardRule("pii", ("email", "staff"), "redact")


@each_case(
    "changes",
    [{"patterns": {"staff": "ST-[0-9]{6}"}}, {"ignore": ("*@example.com",)}, {"key": bytes(31) + b"1"}],
)
def test_a_reload_that_changes_what_is_masked_makes_known_conversations_unknown(changes: dict[str, Any]) -> None:
    for rule in (MASK, REDACT):
        before, after = make_set([rule], MASKING), make_set([rule], replace(MASKING, **changes))
        assert before.digest != after.digest
        assert before.reply_digest != after.reply_digest


def test_a_guard_that_observed_knows_no_conversation_when_it_masks() -> None:
    presidio = GuardRule("names", url="http://127.0.0.1", api="presidio")
    observing = replace(presidio, observes=True)
    assert make_set([observing], MASKING).digest != make_set([presidio], MASKING).digest


def test_guards_are_chosen_by_models_and_keys_also_behind_many_others_and_with_a_new_key() -> None:
    other = GuardRule("own", ("card",), keys=("team-*",), models=("b",))
    guards = Guards([replace(MASK, models=("a",)), other], MASKING, PushTransport())
    asked = [(("a",), "x"), (("b",), "x"), (("b",), "team-1"), (("c", "a"), "team-1"), (("a", "b"), "team-1")]

    def names() -> list[list[str]]:
        sets = [guards.select(*one) for one in asked]
        return [[] if one is None else [rule.name for rule in one.rules] for one in sets]

    expected = [["pii"], [], ["own"], ["pii"], ["pii", "own"]]
    assert names() == expected
    for number in range(MAX_SELECTED):
        assert guards.select(("c",), f"key {number}") is None
    assert names() == expected
    guards.set_key(bytes(31) + b"1")
    assert names() == expected
    chosen = guards.select(("a",), "x")
    assert chosen is not None
    assert chosen.masking.key == bytes(31) + b"1"
