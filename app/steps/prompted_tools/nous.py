"""Writes tools, calls and results into the prompt as Qwen's chat templates do (`nous`).

The wording is Qwen-Agent's, byte for byte, because the models were trained on it.
"""

from collections.abc import Generator, Sequence

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Reasoning, Tool, ToolCall, ToolResult
from app.steps.prompted_tools.choice import ToolChoice, parse_tool_choice
from app.steps.prompted_tools.history import HistoryBuilder, join_content
from app.steps.prompted_tools.tool_call import CODE_TOOL, OPEN, read_tool_call
from app.steps.prompted_tools.wording import add_system_block, dumps, fold_last_turn, without_tools
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_scanner import loads
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage

_BLOCK = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
_CODE = """
For code parameters, use placeholders first, and then put the code within <code></code> XML tags, such as:
<tool_call>
{"name": <function-name>, "arguments": {"code": ""}}
<code>
Here is the code.
</code>
</tool_call>"""
_FORCED = {
    "named": "\n\nYou must call the function {name} in this reply: answer with a <tool_call> that names it.",
    "required": "\n\nYou must call at least one of the functions in this reply: answer with a <tool_call>.",
}


def nous_request(request: ChatRequest, *, code: bool = False) -> ChatRequest:
    """Return the request with its tools in the system message.

    Raises:
        InvalidInput: see `tool_choice`.
    """
    block = build_system_block(request.tools, parse_tool_choice(request), code=code)
    messages = _rewrite_history(request, code=code and _has_code(request.tools))
    joiner = request.text_joiner
    messages_with_tools = add_system_block(messages, block, joiner)
    if request.policy.folds_last:
        messages_with_tools = fold_last_turn(messages_with_tools, joiner)
    return without_tools(request, messages_with_tools)


def build_system_block(tools: Sequence[Tool], choice: ToolChoice, *, code: bool) -> str:
    lines = "\n".join(dumps({"type": "function", "function": dict(tool.schema)}) for tool in tools)
    block = _BLOCK.format(tools=lines) + (_CODE if code and _has_code(tools) else "")
    return block + _FORCED.get(choice.word, "").format(name=choice.name)


def _has_code(tools: Sequence[Tool]) -> bool:
    return any(CODE_TOOL in tool.name for tool in tools)


def _rewrite_history(request: ChatRequest, *, code: bool) -> list[Message]:
    out = HistoryBuilder(request.text_joiner)
    for message in request.messages:
        if message.role == "assistant":
            _add_assistant(out, message, request.text_joiner, code)
        elif message.role == "tool":
            for result in [part for part in message.parts if isinstance(part, ToolResult)]:
                _add_result(out, result, message, request.text_joiner)
        else:
            out.append(message)
    return out.build()


def _add_assistant(out: HistoryBuilder, message: Message, joiner: str, code: bool) -> None:
    """Append an assistant message; consecutive ones are one turn, each on a separate line."""
    if out.last_role != "assistant":
        out.begin(replace(message, parts=()))
    parts = out.open_last()
    content = join_content(message.parts, joiner)
    calls = "\n".join([_call(part, code) for part in message.parts if isinstance(part, ToolCall)])
    has_open_line = parts.end_of_text(1) not in ("", "\n")
    parts.add("\n" if has_open_line else "", *content, calls)
    out.add_reasoning(part for part in message.parts if isinstance(part, Reasoning))


def _call(call: ToolCall, code: bool) -> str:
    arguments, block = _arguments(call.arguments), ""
    if code and CODE_TOOL in call.name and isinstance(arguments, dict) and isinstance(arguments.get("code"), str):
        block = f"<code>\n{arguments['code']}\n</code>\n"
        arguments = {**arguments, "code": ""}
    return f"<tool_call>\n{dumps({'name': call.name, 'arguments': arguments})}\n{block}</tool_call>"


def _arguments(text: str) -> object:
    """Return the value of the JSON text, or the text itself if it is not JSON."""
    try:
        return loads(text) if text.strip() else {}
    except NotACall:
        return text


def _add_result(out: HistoryBuilder, result: ToolResult, message: Message, joiner: str) -> None:
    """Append a result to the last user message, or as a new one."""
    follows = out.last_role == "user"
    if not follows:
        out.begin(Message("user", (), path=message.path))
    content = join_content(result.content, joiner)
    out.open_last().add("\n" if follows else "", "<tool_response>\n", *content, "\n</tool_response>")


_THINK, _THOUGHT = "<think>", "</think>"


class NousStage(CallStage):
    def __init__(
        self, reply_id: str, tools: Sequence[Tool], *, thought_in_content: bool = False, code: bool = False
    ) -> None:
        super().__init__(reply_id, tools, lambda state: _read_reply(state, thought_in_content, code))


def _read_reply(r: ParseState, thinking: bool, code: bool) -> Steps:
    marker = (yield from _read_unopened_thought(r)) if thinking else ""
    while True:
        marker = marker or (yield from r.read_prose(OPEN, _THINK, *r.pending_closers))
        r.pending_closers = ()
        if marker == OPEN:
            yield from r.attempt(read_tool_call(r, code=code))
        elif marker == _THINK:
            yield from _read_thought(r)
        marker = ""


def _read_thought(r: ParseState) -> Steps:
    r.emit_text(_THINK)
    r.emit_text((yield from r.read_prose(_THOUGHT)))


def _read_unopened_thought(r: ParseState) -> Generator[None, None, str]:
    """Read text up to `</think>`. Calls are buffered until it is known whether they are part of the reasoning: if they
    are not, the marker of the first is returned, else ""."""
    marker = yield from r.read_prose(OPEN, _THOUGHT, _THINK)
    if marker != OPEN:
        r.emit_text(marker)
        if marker == _THINK:
            r.emit_text((yield from r.read_prose(_THOUGHT)))
        return ""
    thought, end = yield from r.read_until(_THOUGHT)
    if not end:
        r.rewind_to_marker()
        return OPEN
    r.emit_text(OPEN + thought + end)
    return ""
