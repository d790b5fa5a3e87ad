"""What a reply says as blocks of Anthropic's."""

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats.anthropic.blocks import get_call_fields, get_text_fields, get_thought_fields, write_blocks
from app.formats.seal import Seal, read_seal


def accumulate(*events: Event) -> MessageAccumulator:
    accumulator = MessageAccumulator()
    accumulator.feed([*events, Finish("stop")])
    return accumulator


def test_hidden_reasoning_is_in_the_seal_alone() -> None:
    [thought, text] = write_blocks(accumulate(ReasoningDelta("Hm"), TextDelta("So")), hidden=True, native=False)
    assert (thought["thinking"], read_seal(thought["signature"])) == ("", Seal("Hm"))
    assert text == {"type": "text", "text": "So"}


def test_a_detail_of_this_api_is_a_block_for_clients_of_its_servers() -> None:
    detail = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"}
    reply = accumulate(Extra({"reasoning_details": [detail]}), TextDelta("So"))
    own, sealed = (write_blocks(reply, hidden=False, native=native)[0] for native in (True, False))
    assert own == {"type": "redacted_thinking", "data": "d"}
    assert read_seal(sealed["data"]) == Seal(details=[detail])


def test_each_message_has_the_fields_of_its_kind() -> None:
    extra = Extra({"extra_content": 1})
    [thought, text, call] = accumulate(
        ReasoningDelta("Hm"), extra, TextDelta("So"), extra, ToolCallDelta(0, "{}", "c", "f"), Extra(extra.fields, 0)
    ).messages
    assert [get_thought_fields(thought), get_text_fields(text), get_call_fields(call)] == [[1], [1], {"c": 1}]
    assert [get_text_fields(thought), get_text_fields(call), get_call_fields(text)] == [[], [], {}]
