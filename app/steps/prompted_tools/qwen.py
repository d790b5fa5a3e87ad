"""Writes tools, calls and results into the prompt with the older ✿ commands (`qwen`).

The wording is Qwen-Agent's, byte for byte, because the models were trained on it.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Media, Message, Part, Text, Tool, ToolCall, ToolResult
from app.steps.prompt_language import Language, detect_language
from app.steps.prompted_tools.choice import ToolChoice, allows_parallel_calls, parse_tool_choice
from app.steps.prompted_tools.history import HistoryBuilder, PartsBuilder, append_parts, join_content
from app.steps.prompted_tools.tool_call import CODE_TOOL
from app.steps.prompted_tools.wording import add_system_block, dumps, fold_last_turn, without_tools
from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_calls import read_arguments
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage

FUNCTION, ARGS, RESULT, RETURN = "✿FUNCTION✿", "✿ARGS✿", "✿RESULT✿", "✿RETURN✿"
STOP_WORDS = (RESULT, RETURN)

_HEADING = {"en": "# Tools\n\n## You have access to the following tools:", "zh": "# 工具\n\n## 你拥有如下工具："}
_SINGLE = {
    "en": f"""## When you need to call a tool, please insert the following command in your reply, which can be called \
zero or multiple times according to your needs:

{FUNCTION}: The tool to use, should be one of [%s]
{ARGS}: The input of the tool
{RESULT}: Tool results
{RETURN}: Reply based on tool results. Images need to be rendered as ![](url)""",
    "zh": f"""## 你可以在回复中插入零次、一次或多次以下命令以调用工具：

{FUNCTION}: 工具名称，必须是[%s]之一。
{ARGS}: 工具输入
{RESULT}: 工具结果
{RETURN}: 根据工具结果进行回复，需将图片用![](url)渲染出来""",
}
_PARALLEL = {
    "en": f"""## Insert the following command in your reply when you need to call N tools in parallel:

{FUNCTION}: The name of tool 1, should be one of [%s]
{ARGS}: The input of tool 1
{FUNCTION}: The name of tool 2
{ARGS}: The input of tool 2
...
{FUNCTION}: The name of tool N
{ARGS}: The input of tool N
{RESULT}: The result of tool 1
{RESULT}: The result of tool 2
...
{RESULT}: The result of tool N
{RETURN}: Reply based on tool results. Images need to be rendered as ![](url)""",
    "zh": f"""## 你可以在回复中插入以下命令以并行调用N个工具：

{FUNCTION}: 工具1的名称，必须是[%s]之一
{ARGS}: 工具1的输入
{FUNCTION}: 工具2的名称
{ARGS}: 工具2的输入
...
{FUNCTION}: 工具N的名称
{ARGS}: 工具N的输入
{RESULT}: 工具1的结果
{RESULT}: 工具2的结果
...
{RESULT}: 工具N的结果
{RETURN}: 根据工具结果进行回复，需将图片用![](url)渲染出来""",
}
_PARAMETERS = {"en": "Parameters: ", "zh": "输入参数："}
_FORMAT = {"en": "Format the arguments as a JSON object.", "zh": "此工具的输入应为JSON对象。"}
_CODE_FORMAT = {
    "en": "Enclose the code within triple backticks (`) at the beginning and end of the code.",
    "zh": "此工具的输入应为Markdown代码块。",
}


def qwen_request(request: ChatRequest) -> ChatRequest:
    """Return the request with its tools in the system message.

    If the last turn ends with a result, or a forced call was started for the model, that turn is appended to the last
    user message, and the model continues it.

    Raises:
        InvalidInput: see `tool_choice`.
    """
    choice, joiner = parse_tool_choice(request), request.text_joiner
    messages = _rewrite_history(request)
    if messages and messages[-1].role == "assistant":
        messages[-1] = _without_colon(messages[-1])
    if choice.name:
        _begin_call(messages, choice.name)
    block = build_system_block(request.tools, detect_language(request), several=allows_parallel_calls(request))
    messages_with_tools = add_system_block(messages, block, joiner)
    if _must_continue(request, choice):
        messages_with_tools = fold_last_turn(messages_with_tools, joiner)
    return with_stop_words(without_tools(request, messages_with_tools))


def with_stop_words(request: ChatRequest) -> ChatRequest:
    """Append the prompt's stop words to the caller's."""
    stop = request.params.get("stop") or []
    words = [stop] if isinstance(stop, str) else list(stop)
    words += [word for word in STOP_WORDS if word not in words]
    return replace(request, params={**request.params, "stop": words})


def build_system_block(tools: Sequence[Tool], lang: Language, *, several: bool) -> str:
    entries = "\n\n".join(_describe_tool(tool.schema, lang) for tool in tools)
    commands = (_PARALLEL if several else _SINGLE)[lang]
    return f"{_HEADING[lang]}\n\n{entries}\n\n" + commands.replace("%s", ",".join(_name(tool.schema) for tool in tools))


def _must_continue(request: ChatRequest, choice: ToolChoice) -> bool:
    """Return whether the model must continue the last turn: after a result, or in a call that was started for it."""
    last = request.messages[-1].role if request.messages else "user"
    return request.policy.folds_last or last == "tool" or bool(choice.name)


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema.get("name_for_model") or schema.get("name", ""))


def _describe_tool(schema: Mapping[str, Any], lang: Language) -> str:
    model_name = _name(schema)
    human_name = schema.get("name_for_human") or schema.get("name", "")
    default = (_CODE_FORMAT if model_name == CODE_TOOL else _FORMAT)[lang]
    description = schema.get("description_for_model") or schema.get("description") or ""
    parameters = f"{_PARAMETERS[lang]}{dumps(schema.get('parameters') or {})}"
    ending = schema.get("args_format", default)
    return f"### {human_name}\n\n{model_name}: {description} {parameters} {ending}".rstrip()


def _rewrite_history(request: ChatRequest) -> list[Message]:
    """Write calls and results into the assistant's turn, and drop reasoning."""
    out = HistoryBuilder(request.text_joiner)
    for message in request.messages:
        if message.role in ("system", "user"):
            out.append(message)
            continue
        continues = out.last_role == "assistant"
        if not continues:
            out.begin(Message("assistant", (), path=message.path))
        parts = out.open_last()
        parts.add(*join_content(message.parts, request.text_joiner))
        for part in message.parts:
            if isinstance(part, ToolCall):
                parts.add(_call(part, own_line=continues))
                continues = True
            elif isinstance(part, ToolResult):
                _add_result(parts, part, request.text_joiner)
    return out.build()


def _call(call: ToolCall, *, own_line: bool) -> str:
    line = "\n" if own_line else ""
    code = "\n" if call.arguments.startswith("```") else ""
    return f"{line}{FUNCTION}: {call.name}\n{ARGS}: {code}{call.arguments}"


def _add_result(parts: PartsBuilder, result: ToolResult, joiner: str) -> None:
    """Add a result; several results share one RETURN at their end."""
    ending = f"\n{RETURN}: "
    if parts.end_of_text(len(ending)) == ending:
        parts.remove_end(len(ending))
    parts.add(f"\n{RESULT}: ", *join_content(result.content, joiner), ending)


def _without_colon(message: Message) -> Message:
    """Remove the final ": ", which the model writes itself: the colon may be one token with the word after it."""
    last = message.parts[-1] if message.parts else None
    if isinstance(last, Text) and last.text.endswith(f"{RETURN}: "):
        return Message("assistant", (*message.parts[:-1], Text(last.text[:-2])), message.name, None, message.path)
    return message


def _begin_call(messages: list[Message], name: str) -> None:
    """Start the call for the model."""
    if not messages or messages[-1].role != "assistant":
        messages.append(Message("assistant", (Text(f"{FUNCTION}: {name}"),)))
        return
    last = messages.pop()
    text = "".join(part.text for part in last.parts if isinstance(part, Text))
    between = ": \n" if text.endswith(RETURN) else "\n" if any(_is_visible(part) for part in last.parts) else ""
    messages.append(Message("assistant", append_parts(last.parts, (f"{between}{FUNCTION}: {name}",)), path=last.path))


def _is_visible(part: Part) -> bool:
    return isinstance(part, Media) or (isinstance(part, Text) and bool(part.text))


_COMMANDS = (FUNCTION, ARGS, RESULT, RETURN)
_LONGEST_NAME = 200
_FENCE = "```"


class QwenStage(CallStage):
    """`forced` is the name of the function whose call the prompt has started."""

    def __init__(self, reply_id: str, tools: Sequence[Tool], *, parallel: bool = False, forced: str = "") -> None:
        super().__init__(reply_id, tools, lambda state: _CommandParser(state, forced).run(parallel=parallel))


class _CommandParser:
    def __init__(self, state: ParseState, forced: str) -> None:
        self._state = state
        self._name = forced
        """The function of the call whose arguments come next."""

    def run(self, *, parallel: bool) -> Steps:
        state = self._state
        yield from self._skip_colon()
        while True:
            command = yield from state.read_prose(*_COMMANDS, blanks=True)
            known = state.calls
            if command in (FUNCTION, ARGS):
                yield from state.attempt(self._call(command))
            if command in (RESULT, RETURN) or (state.calls > known and not parallel):
                yield from state.skip_rest()

    def _skip_colon(self) -> Steps:
        """Skip the colon with which the model continues after `✿RETURN✿`."""
        while not self._state.text:
            yield
        if not (yield from self._state.accept(": ")):
            yield from self._state.accept(":")

    def _call(self, command: str) -> Steps:
        state = self._state
        if command == FUNCTION:
            self._name, command = yield from self._head()
        if not self._name:
            raise NotACall
        call = state.open_call(self._name)
        if command == ARGS:
            yield from self._arguments(call)
        state.complete_call(call)
        _, command = yield from state.read_until(*_COMMANDS)
        state.pos -= len(command)
        state.commit()

    def _head(self) -> Generator[None, None, tuple[str, str]]:
        """Return the name and the ARGS command after it, if any. Only a known function may lack arguments."""
        state = self._state
        try:
            head, command = yield from state.read_head("\n", *_COMMANDS, limit=_LONGEST_NAME)
        except TruncatedCall:
            head, command = state.text[state.pos :], ""
        name = head.strip().removeprefix(":").strip()
        if command == "\n":
            command = yield from state.accept_tag(ARGS)
        elif command != ARGS:
            state.pos = len(state.text) if not command else state.pos - len(command)
        if not name or (command != ARGS and name not in state.tools):
            raise NotACall
        return name, command

    def _arguments(self, call: OpenCall) -> Steps:
        state = self._state
        yield from state.accept_tag(":")
        try:
            yield from state.skip_blanks()
        except TruncatedCall:
            return
        if state.text[state.pos] == "{":
            yield from read_arguments(state, call, _COMMANDS)
            return
        text, command = yield from state.read_until(*_COMMANDS)
        state.pos -= len(command)
        call.put(_trim_arguments(text))


def _trim_arguments(text: str) -> str:
    """Trim arguments that are not a JSON object; drop text after the closing fence of a code block."""
    end = text.rfind(_FENCE)
    return text[: end + len(_FENCE)] if text.startswith(_FENCE) and end > 0 else text.strip()
