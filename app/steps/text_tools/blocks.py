"""Families whose calls stand between an opening and a closing marker: Hermes, Qwen, GLM, MiniMax, DeepSeek's DSML."""

import json
from collections.abc import Callable
from functools import partial

from app.steps.text_tools import tagged
from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.json_calls import json_call
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.told import Unreadable
from app.steps.text_tools.values import loads

OPEN, CLOSE = "<tool_call>", "</tool_call>"
CODE_TOOL = "code_interpreter"
_DSML = "<｜DSML｜"


def block(r: Reading, openings: tuple[str, ...], body: Callable[[str], Steps]) -> Steps:
    """Prose and blocks in turn. A closing marker that comes late is passed over."""
    while True:
        marker = yield from r.prose(*openings, *r.owed)
        r.owed = ()
        if marker in openings:
            yield from r.attempt(body(marker))


def hermes(r: Reading) -> Steps:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`, and XML inside the same tags."""
    yield from block(r, (OPEN,), lambda _: tool_call(r))


def qwen3_coder(r: Reading) -> Steps:
    """`<tool_call><function=…><parameter=…>`, also where the outer tag is missing."""
    yield from block(r, (OPEN, tagged.QWEN.call), lambda marker: tool_call(r) if marker == OPEN else _bare(r))


def _bare(r: Reading) -> Steps:
    yield from tagged.invocation(r, tagged.QWEN, (CLOSE,))
    r.owed = () if (yield from r.swallow(CLOSE)) else (CLOSE,)


def tool_call(r: Reading, *, code: bool = False) -> Steps:
    """What stands behind `<tool_call>`. `code`: a `<code>` block may hold the code of a code interpreter."""
    yield from r.blanks()
    if (yield from r.sees(tagged.QWEN.call)):
        yield from tagged.calls(r, tagged.QWEN, (CLOSE,))
    else:
        yield from json_block(r, CLOSE, code=code)


def json_block(r: Reading, closer: str, *, code: bool = False) -> Steps:
    """JSON objects up to the closing marker; braces too many are passed over."""
    while True:
        call = r.open()
        call.withheld = CODE_TOOL if code else ""
        yield from json_call(r, call, (closer,))
        if code and CODE_TOOL in call.name and (yield from r.swallow("<code>")):
            text, _ = yield from r.until("</code>")
            call.change(partial(_with_code, text))
        call.finish()
        tag = yield from r.swallow(closer, "{", besides="}")
        if tag != "{":
            r.owed = () if tag else (closer,)
            return
        r.pos -= 1


def _with_code(code: str, arguments: str) -> str:
    values = loads(arguments or "{}")
    if not isinstance(values, dict):
        raise Unreadable
    return json.dumps({**values, "code": code + "\n"}, ensure_ascii=False)


def lmstudio(r: Reading) -> Steps:
    """`[TOOL_REQUEST]{…}[END_TOOL_REQUEST]`."""
    yield from block(r, ("[TOOL_REQUEST]",), lambda _: json_block(r, "[END_TOOL_REQUEST]"))


def glm45(r: Reading) -> Steps:
    """`<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`."""
    yield from block(r, (OPEN,), lambda _: _glm(r))


def _glm(r: Reading) -> Steps:
    head, tag = yield from r.until(tagged.GLM.parameter, CLOSE, limit=400)
    call = r.open(tagged.GLM.name(head))
    r.pos -= len(tag)
    yield from tagged.parameters(r, call, tagged.GLM, (CLOSE,))
    call.finish()


def minimax_m2(r: Reading) -> Steps:
    """`<minimax:tool_call><invoke name="…"><parameter name="…">`."""
    yield from block(r, ("<minimax:tool_call>",), lambda _: tagged.calls(r, tagged.INVOKE, ("</minimax:tool_call>",)))


def dsml(r: Reading) -> Steps:
    """DeepSeek's `<｜DSML｜function_calls>` and `<｜DSML｜tool_calls>`."""
    openings = (f"{_DSML}function_calls>", f"{_DSML}tool_calls>")
    yield from block(r, openings, lambda marker: tagged.calls(r, tagged.DSML, (marker.replace("<", "</", 1),)))
