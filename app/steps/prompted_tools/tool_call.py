"""Reads what stands between `<tool_call>` and `</tool_call>`, perhaps with code of a code interpreter behind it."""

from functools import partial

from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.families import FAMILIES, QWEN
from app.steps.tool_parsers.family import Reader
from app.steps.tool_parsers.json_calls import read_json_call
from app.steps.tool_parsers.json_scanner import loads, write_json
from app.steps.tool_parsers.parser import ParseState

OPEN, CLOSE = "<tool_call>", "</tool_call>"
CODE_TOOL = "code_interpreter"
_HERMES = Reader([FAMILIES["hermes"]])


def read_tool_call(r: ParseState, *, code: bool = False) -> Steps:
    """Read the text after `<tool_call>`. `code`: the code of a code interpreter may be in a `<code>` block."""
    yield from r.skip_blanks()
    if (yield from r.is_at(QWEN.call)):
        yield from _HERMES.read_block(r, OPEN)
    else:
        yield from _read_json_block(r, code)


def _read_json_block(r: ParseState, code: bool) -> Steps:
    """Read JSON objects up to the closing marker; surplus closing braces are skipped."""
    while True:
        call = r.open_call()
        call.withheld_name = CODE_TOOL if code else ""
        yield from read_json_call(r, call, (CLOSE,))
        if code and CODE_TOOL in call.name and (yield from r.accept_tag("<code>")):
            text, end = yield from r.read_until("</code>")
            if not end:
                raise TruncatedCall
            call.replace_arguments(partial(_add_code, text))
        r.complete_call(call)
        tag = yield from r.accept_tag(CLOSE, "{", besides="}")
        if tag != "{":
            r.pending_closers = () if tag else (CLOSE,)
            return
        r.pos -= 1


def _add_code(code: str, arguments: str) -> str:
    values = loads(arguments or "{}")
    if not isinstance(values, dict):
        raise NotACall
    return write_json({**values, "code": code + "\n"})
