"""The frames of the compatible form, which are those of AutoGen's own agents."""

from tests.each_case import each_case
from tests.formats.autogen.reply_frames import NOT_AS_AUTOGEN, STREAMS, encode_frames, renamed, upstream, without_result


@each_case("name", STREAMS)
def test_the_compatible_form_is_what_autogens_agent_emits(name: str) -> None:
    ours = without_result(encode_frames(upstream(name), "compat"))
    of_tools = ("ToolCallExecutionEvent", "ToolCallSummaryMessage")
    theirs = [one for one in STREAMS[name]["events"][1:] if "EXCEPTION" not in one and one["type"] not in of_tools]
    if name.startswith("s20"):
        ours.pop()
    differs = NOT_AS_AUTOGEN.keys() - {"s13_usage_on_finish_chunk", "s15_toolcall_finish_stop"}
    assert (renamed(ours) == renamed(theirs)) is (name not in differs)
