"""One question, or a conversation with commands, at a terminal or from a pipe."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import httpx
from msgspec import Struct

from app.terminal.attachments import UnreadableFile, find_file, read_attachment
from app.terminal.color import DIM, paint
from app.terminal.frames import Frame
from app.terminal.gateway import RETRY_SECONDS, Gateway, RequestFailed, Unreachable, describe_error
from app.terminal.screen import JsonScreen, PrettyScreen, Screen, replace_control_characters

COMPLETED, FAILED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 130

Message = dict[str, Any]

COMMANDS = {
    "/help": "list these commands",
    "/image PATH": "send an image, a PDF or another file with the next question",
    "/model [NAME]": "use this model from now on; without a name, list the models",
    "/save PATH": "write the conversation to a JSON file",
    "/clear": "forget the conversation",
    "/quit": "end the program, as Ctrl-D does",
}
"""What can be typed instead of a question, and what it does."""

_HINT = "Ctrl-C again, Ctrl-D or /quit ends the program"
_MAX_ARGUMENTS = 60
"""Characters of a call's arguments in the prompt for its result."""


class ChatOptions(Struct, frozen=True):
    """The gateway, what is sent with each question, and where to print."""

    url: str
    out: TextIO
    err: TextIO
    model: str | None = None
    functions: list[dict[str, Any]] | None = None
    system: str | None = None
    attachments: Sequence[Path] = ()
    """Files that are sent with the first question."""
    api_key: str | None = None
    as_json: bool = False
    """Print each frame as a line of JSON."""
    color: bool = False
    transport: httpx.BaseTransport | None = None
    retry_seconds: Sequence[float] = RETRY_SECONDS


def ask_once(options: ChatOptions, question: str) -> int:
    """Ask one question and return the exit status: 0 completed, 1 failed, 2 cannot connect, 130 interrupted."""
    conversation = _Conversation(options)
    if not all([conversation.attach(file) for file in options.attachments]):
        return FAILED
    try:
        return conversation.ask([*conversation.messages, conversation.make_question(question)])[0]
    except KeyboardInterrupt:
        conversation.print_error("interrupted")
        return INTERRUPTED


def converse(options: ChatOptions, read: Callable[[str], str], *, interactive: bool) -> int:
    """Hold a conversation until the end of input. A question that fails or is stopped does not become part of it.

    `read` prompts for a line and raises EOFError at the end. Without a person at the other end (`interactive` false)
    Ctrl-C ends the program, and the exit status is that of the first question that failed.
    """
    return _Loop(_Conversation(options), read, interactive).run()


def _find_id(message: Message) -> Any:
    """Return the id of a call, or of the call that a result answers."""
    extra = message.get("extra")
    return extra.get("function_id") if isinstance(extra, dict) else None


def _find_open_calls(received: Sequence[Message]) -> list[Message]:
    """Return the calls of a reply that have no result: the gateway has answered the others."""
    answered = {_find_id(message) for message in received if message.get("role") == "function"} - {None}
    calls = [message for message in received if isinstance(message.get("function_call"), dict)]
    return [call for call in calls if _find_id(call) not in answered]


def _waits(call: Message) -> bool:
    extra = call.get("extra")
    return isinstance(extra, dict) and extra.get("approval") == "required"


def _describe_call(call: Message) -> str:
    function = call["function_call"]
    arguments = " ".join(str(function.get("arguments")).split())
    shown = arguments if len(arguments) <= _MAX_ARGUMENTS else f"{arguments[: _MAX_ARGUMENTS - 1]}…"
    return f"{function.get('name')}({shown})"


class _Stopped(Exception):
    """The person stopped the reply, or did not give the result of a call."""


class _Loop:
    def __init__(self, conversation: "_Conversation", read: Callable[[str], str], interactive: bool) -> None:
        self._conversation = conversation
        self._read = read
        self._interactive = interactive
        self._status = COMPLETED

    def run(self) -> int:
        conversation = self._conversation
        for file in conversation.options.attachments:
            if not conversation.attach(file) and not self._interactive:
                return FAILED
        if self._interactive:
            conversation.print_note(f"{conversation.describe()}. /help lists the commands")
        try:
            while self._take(self._read_line()):
                pass
        except EOFError:
            pass
        except (KeyboardInterrupt, _Stopped):
            return INTERRUPTED
        return COMPLETED if self._interactive else self._status

    def _read_line(self) -> str:
        """Read a question or a command. A person's first Ctrl-C discards the line, the second one ends the program."""
        try:
            return self._read("> ").strip()
        except KeyboardInterrupt:
            if not self._interactive:
                raise
        self._conversation.print_note(_HINT)
        return self._read("> ").strip()

    def _take(self, line: str) -> bool:
        """Ask a question, or run a command. Returns False if the command ends the program."""
        if line.startswith("/"):
            return self._obey(line)
        if line:
            try:
                self._ask(line)
            except _Stopped:
                if not self._interactive:
                    raise
        return True

    def _ask(self, question: str) -> None:
        """Ask, and ask again with the results of the calls that a reply makes. Raises _Stopped."""
        conversation = self._conversation
        sent = [*conversation.messages, conversation.make_question(question)]
        approvals: list[Message] = []
        try:
            while True:
                status, received = conversation.ask(sent, approvals)
                if status != COMPLETED:
                    self._status = self._status or status
                    return
                sent = [*sent, *received]
                calls = _find_open_calls(received)
                if not calls:
                    break
                approvals = [self._read_approval(call) for call in calls if _waits(call)]
                sent += [self._read_result(call) for call in calls if not _waits(call)]
        except (KeyboardInterrupt, EOFError):
            conversation.print_note("stopped; the question is not part of the conversation")
            raise _Stopped from None
        conversation.messages = sent
        conversation.attached = []

    def _read_approval(self, call: Message) -> Message:
        """Ask the person whether the gateway may run the call."""
        answer = self._read(replace_control_characters(f"run {_describe_call(call)}? [y/n] "))
        return {"id": _find_id(call), "approve": answer.strip().lower() in ("y", "yes")}

    def _read_result(self, call: Message) -> Message:
        """Ask the person for what the function returns."""
        name, id = str(call["function_call"].get("name")), _find_id(call)
        content = self._read(replace_control_characters(f"result of {_describe_call(call)}: "))
        return {"role": "function", "name": name, "content": content} | ({"extra": {"function_id": id}} if id else {})

    def _obey(self, line: str) -> bool:
        """Run a command. Returns False if it ends the program."""
        conversation = self._conversation
        name, _, argument = line.partition(" ")
        argument = argument.strip()
        match name, bool(argument):
            case (("/quit" | "/exit"), False):
                return False
            case "/help", _:
                conversation.print_help()
            case "/clear", False:
                conversation.clear()
            case "/model", True:
                conversation.model = argument
                conversation.print_note(f"the model is {argument}")
            case "/model", False:
                conversation.print_models()
            case (("/image" | "/file"), True):
                conversation.attach(find_file(argument))
            case "/save", True:
                conversation.save(find_file(argument))
            case (("/image" | "/file" | "/save"), False):
                conversation.print_error(f"{name} needs a path: {name} PATH")
            case (("/quit" | "/exit" | "/clear"), True):
                conversation.print_error(f"{name} takes no argument, not {argument!r}")
            case _:
                conversation.print_error(f"there is no command {name}; /help lists them")
        return True


class _Conversation:
    """The messages so far, and what is sent with the next question."""

    def __init__(self, options: ChatOptions) -> None:
        self.options = options
        self.model = options.model
        self.attached: list[dict[str, str]] = []
        """The content items of files that are sent with the next question."""
        self.messages: list[Message] = []
        self._gateway = Gateway(options.url, options.api_key, options.transport, options.retry_seconds)
        self.clear(quiet=True)

    def describe(self) -> str:
        return f"{self.model or 'the default model'} at {self.options.url}"

    def clear(self, *, quiet: bool = False) -> None:
        """Forget the conversation and the files; a system message stays."""
        system = self.options.system
        self.messages = [{"role": "system", "content": system}] if system else []
        self.attached = []
        if not quiet:
            self.print_note("the conversation is empty")

    def make_question(self, text: str) -> Message:
        return {"role": "user", "content": [{"text": text}, *self.attached] if self.attached else text}

    def ask(self, messages: Sequence[Message], approvals: Sequence[Message] = ()) -> tuple[int, list[Message]]:
        """Send the messages and show the reply. Return the exit status and the messages of the reply.

        Raises KeyboardInterrupt after the reply was stopped.
        """
        options = self.options
        screen: Screen = JsonScreen(options.out) if options.as_json else PrettyScreen(options.out, color=options.color)
        received: list[Message] = []

        def on_lost(text: str) -> None:
            screen.end_line()
            self.print_error(text)

        try:
            body = self._make_body(messages)
            body = {**body, "tool_approvals": list(approvals)} if approvals else body
            with contextlib.closing(self._gateway.stream(body, on_lost)) as frames:
                for frame in frames:
                    screen.show(frame)
                    _collect(frame, received)
        except RequestFailed as failed:
            screen.end_line()
            self.print_error(str(failed))
            return UNREACHABLE if isinstance(failed, Unreachable) else FAILED, received
        except KeyboardInterrupt:
            screen.end_line()
            raise
        return COMPLETED, received

    def _make_body(self, messages: Sequence[Message]) -> Mapping[str, object]:
        # The reply goes on if the connection breaks, so that it can be resumed; Ctrl-C stops it with a request.
        body: dict[str, object] = {"messages": messages, "stream": True, "cancel_on_disconnect": False}
        body |= {"model": self.model} if self.model is not None else {}
        body |= {"functions": self.options.functions} if self.options.functions is not None else {}
        return body

    def attach(self, file: Path) -> bool:
        """Read a file that is sent with the next question. Returns False, after a message, if it cannot be read."""
        try:
            item = read_attachment(file)
        except UnreadableFile as error:
            self.print_error(str(error))
            return False
        self.attached = [*self.attached, item]
        (kind,) = item
        self.print_note(f"{file.name} is sent with the next question, as {kind}")
        return True

    def save(self, file: Path) -> None:
        text = json.dumps(self.messages, ensure_ascii=False, indent=2) + "\n"
        try:
            # A half surrogate pair, which UTF-8 cannot encode, becomes its JSON escape.
            with file.open("x", encoding="utf-8", errors="backslashreplace") as out:
                out.write(text)
        except FileExistsError:
            self.print_error(f"{file}: exists already; choose another name")
        except (OSError, ValueError) as error:
            self.print_error(f"{file}: cannot be written ({getattr(error, 'strerror', None) or error})")
        else:
            self.print_note(f"{len(self.messages)} messages written to {file}, in the format qwen")

    def print_models(self) -> None:
        try:
            names = [row["id"] for row in self._gateway.models()]
        except RequestFailed as failed:
            self.print_error(str(failed))
            return
        for name in names:
            self.options.out.write(replace_control_characters(f"{'* ' if name == self.model else '  '}{name}\n"))
        self.print_note(f"the model is {self.model or 'the default of the gateway'}")

    def print_help(self) -> None:
        width = max(map(len, COMMANDS))
        lines = [f"{command:<{width}}  {effect}\n" for command, effect in COMMANDS.items()]
        self.options.out.write("".join([*lines, "Ctrl-C stops a reply.\n"]))
        self.options.out.flush()

    def print_note(self, text: str) -> None:
        self._print(paint(_one_line(text), DIM, color=self.options.color))

    def print_error(self, text: str) -> None:
        self._print(f"parley: {_one_line(text)}")

    def _print(self, line: str) -> None:
        self.options.out.flush()
        self.options.err.write(f"{line}\n")
        self.options.err.flush()


def _collect(frame: Frame, received: list[Message]) -> None:
    """Keep a complete message. Raises RequestFailed if the reply failed."""
    match frame.get("type"):
        case "message.completed" if isinstance(frame.get("message"), dict):
            received.append(frame["message"])
        case "response.failed":
            raise RequestFailed(describe_error(frame.get("error")) or "the reply failed")


def _one_line(text: str) -> str:
    return " ".join(replace_control_characters(text).split())
