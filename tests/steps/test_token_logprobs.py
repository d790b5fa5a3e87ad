"""Log probabilities behind the stages of a reply."""

from app.chat.events import Event, Finish, TextDelta, TokenLogprobs
from app.chat.stage import Stage
from app.chat.token_record import TokenRecord
from app.profiles import Profile
from app.steps.reasoning_parser import ReasoningStage
from app.steps.stop_words import StopWordStage
from app.steps.token_logprobs import LogprobsStage


def run(texts: list[str], *stages: Stage, known: bool = True) -> list[Event]:
    """What becomes of texts, of which each is a token with a log probability if it is known."""
    record = TokenRecord()
    stage = LogprobsStage(record, stages)
    out: list[Event] = []
    for text in texts:
        events: list[Event] = [TextDelta(text)]
        record.add(events, [{"token": text}] if known else None)
        out += stage.feed(events)
    return out + stage.feed([Finish("stop")])


def scored(*texts: str) -> list[Event]:
    return [event for text in texts for event in (TokenLogprobs([{"token": text}]), TextDelta(text))]


def test_they_come_before_their_text() -> None:
    assert run(["a", "b"]) == [*scored("a", "b"), Finish("stop")]


def test_what_a_stage_holds_back_comes_with_its_own() -> None:
    out = run(["a", "ST", "A"], StopWordStage(["STOP"]))
    assert out[:2] == scored("a")
    tokens = [token["token"] for event in out if type(event) is TokenLogprobs for token in event.tokens]
    assert tokens == ["a", "ST", "A"]
    assert out[-1] == Finish("stop")


def test_a_warning_says_that_a_stop_word_was_taken_out() -> None:
    *out, finish = run(["a", "STOP", "b"], StopWordStage(["STOP"]))
    assert out == scored("a")
    assert type(finish) is Finish
    assert "changed the text" in finish.warnings[0]


def test_a_warning_says_that_reasoning_was_taken_out() -> None:
    *out, finish = run(["<think>Hm</think>", "Yes"], ReasoningStage("leading", Profile().think_tags))
    assert TextDelta("Yes") in out
    assert TokenLogprobs not in map(type, out)
    assert type(finish) is Finish
    assert "changed the text" in finish.warnings[0]


def test_a_warning_says_that_the_server_sent_none() -> None:
    *out, finish = run(["a"], known=False)
    assert out == [TextDelta("a")]
    assert type(finish) is Finish
    assert len(finish.warnings) == 1
    assert "the model server sent none" in finish.warnings[0]
