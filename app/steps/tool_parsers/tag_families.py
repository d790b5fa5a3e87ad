"""Parses families with calls between an opening and a closing marker: Hermes, Qwen, GLM, MiniMax, DeepSeek's DSML."""

from collections.abc import Callable
from functools import partial

from app.steps.tool_parsers import xml_calls
from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_calls import read_json_call
from app.steps.tool_parsers.json_scanner import loads, write_json
from app.steps.tool_parsers.parser import ParseState

OPEN, CLOSE = "<tool_call>", "</tool_call>"
CODE_TOOL = "code_interpreter"
_DSML = "<｜DSML｜"


def read_blocks(r: ParseState, openings: tuple[str, ...], body: Callable[[str], Steps]) -> Steps:
    """Read prose and blocks alternately. A late closing marker is skipped."""
    while True:
        marker = yield from r.read_prose(*openings, *r.pending_closers)
        r.pending_closers = ()
        if marker in openings:
            yield from r.attempt(body(marker))


def hermes(r: ParseState) -> Steps:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`, and XML inside the same tags."""
    yield from read_blocks(r, (OPEN,), lambda _: read_tool_call(r))


def qwen3_coder(r: ParseState) -> Steps:
    """`<tool_call><function=…><parameter=…>`, even without the outer tag."""
    yield from read_blocks(
        r, (OPEN, xml_calls.QWEN.call), lambda marker: read_tool_call(r) if marker == OPEN else _read_unwrapped_call(r)
    )


def _read_unwrapped_call(r: ParseState) -> Steps:
    yield from xml_calls.read_call(r, xml_calls.QWEN, (CLOSE,))
    r.pending_closers = () if (yield from r.accept_tag(CLOSE)) else (CLOSE,)


def read_tool_call(r: ParseState, *, code: bool = False) -> Steps:
    """Read the text after `<tool_call>`. `code`: the code of a code interpreter may be in a `<code>` block."""
    yield from r.skip_blanks()
    if (yield from r.is_at(xml_calls.QWEN.call)):
        yield from xml_calls.read_calls(r, xml_calls.QWEN, (CLOSE,))
    else:
        yield from read_json_block(r, CLOSE, code=code)


def read_json_block(r: ParseState, closer: str, *, code: bool = False) -> Steps:
    """Read JSON objects up to the closing marker; surplus closing braces are skipped."""
    while True:
        call = r.open_call()
        call.withheld_name = CODE_TOOL if code else ""
        yield from read_json_call(r, call, (closer,))
        if code and CODE_TOOL in call.name and (yield from r.accept_tag("<code>")):
            text, end = yield from r.read_until("</code>")
            if not end:
                raise TruncatedCall
            call.replace_arguments(partial(_add_code, text))
        r.complete_call(call)
        tag = yield from r.accept_tag(closer, "{", besides="}")
        if tag != "{":
            r.pending_closers = () if tag else (closer,)
            return
        r.pos -= 1


def _add_code(code: str, arguments: str) -> str:
    values = loads(arguments or "{}")
    if not isinstance(values, dict):
        raise NotACall
    return write_json({**values, "code": code + "\n"})


def lmstudio(r: ParseState) -> Steps:
    """`[TOOL_REQUEST]{…}[END_TOOL_REQUEST]`."""
    yield from read_blocks(r, ("[TOOL_REQUEST]",), lambda _: read_json_block(r, "[END_TOOL_REQUEST]"))


def glm45(r: ParseState) -> Steps:
    """`<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`."""
    yield from read_blocks(r, (OPEN,), lambda _: _glm(r))


def _glm(r: ParseState) -> Steps:
    head, tag = yield from r.read_head(xml_calls.GLM.parameter, CLOSE, limit=400)
    call = r.open_call(xml_calls.GLM.name(head))
    r.pos -= len(tag)
    yield from xml_calls.read_parameters(r, call, xml_calls.GLM, (CLOSE,))
    r.complete_call(call)


def minimax_m2(r: ParseState) -> Steps:
    """`<minimax:tool_call><invoke name="…"><parameter name="…">`."""
    yield from read_blocks(
        r, ("<minimax:tool_call>",), lambda _: xml_calls.read_calls(r, xml_calls.INVOKE, ("</minimax:tool_call>",))
    )


def dsml(r: ParseState) -> Steps:
    """DeepSeek's `<｜DSML｜function_calls>` and `<｜DSML｜tool_calls>`."""
    openings = (f"{_DSML}function_calls>", f"{_DSML}tool_calls>")
    yield from read_blocks(
        r, openings, lambda marker: xml_calls.read_calls(r, xml_calls.DSML, (marker.replace("<", "</", 1),))
    )
