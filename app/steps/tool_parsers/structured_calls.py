"""Cleans the structured calls of a reply: what a server's own parser left of its template in names and arguments.

A name that was not offered is the offered one that remains without the template's parts, with the arguments that stand
in it if there are no others. Arguments that are a call in text, of that function, are what that call has. Tokens before
and behind the arguments are left out, and so are surplus braces and the same arguments once more. So are special tokens
at the end of a text inside them, with a warning: a text cannot end with them unless it is about templates. What is not
certain stays as it came, with a warning.

Arguments pass without being looked at while they have no `<`, no backtick, and no `}` at the end or before a brace.
"""

import re
from collections.abc import Callable, Mapping
from itertools import islice

from app.chat.accumulator import JsonEnd
from app.chat.events import Event, ToolCallDelta
from app.chat.messages import Tool
from app.chat.template_tokens import AROUND_ARGUMENTS, TOKEN, may_begin_token
from app.steps.tool_parsers.names import find_offered
from app.steps.tool_parsers.warnings import Warnings

ReadCall = Callable[[str], tuple[str, str] | None]
"""Reads a call in a text: its name and arguments."""

_TOKEN_OPENING = r"(?:<|\\u003[cC])"
_find_opening = re.compile(rf"{_TOKEN_OPENING}|`|\}}\s*(?:\Z|[{{}}])").search
_BAR = r"(?:｜|\\u[fF][fF]5[cC])"
_find_token = re.compile(
    rf"{_TOKEN_OPENING}(?=\||/?{_BAR}|/?\\(?:$|u(?:$|[fF]))|/?$)|\\(?:u(?:0(?:0(?:3)?)?)?)?$"
).search
_TOKENS = re.compile(
    rf"(?:(?:{_TOKEN_OPENING}\|[^\"<>|\\]{{1,40}}\|(?:>|\\u003[eE])"
    rf"|{_TOKEN_OPENING}/?{_BAR}+[^\"<>]{{1,60}}?(?:>|\\u003[eE]|(?=$)))(?:\s|\\n)*)+"
)
"""Special tokens in the text of a JSON string."""
_is_parameter_closer = re.compile(rf"{_TOKEN_OPENING}/{_BAR}+DSML{_BAR}+ ?parameter").match
"""What ends a value, which a parser of a server takes for a part of it: without the quote, the brace and this
token's own bracket the stream ends (vllm-project/vllm#45877)."""
_find_think_tag = re.compile(rf"{_TOKEN_OPENING}(/?)(?:\w+:)?think(?:>|\\u003[eE])").search
_find_markup = re.compile(rf"{_TOKEN_OPENING}(?:/?{_BAR}+DSML{_BAR}|\|\\\"\|)").match
"""Markup in a text, also Gemma's quotes (vllm-project/vllm#44522)."""
_find_quote = re.compile(r'(?:[^"\\]|\\.)*?"', re.DOTALL).match
_LONGEST_TOKENS = 300
_MOST_BEGINNINGS = 8
"""So many places in a name are tried as the beginning of arguments."""
_MAY_BE_EMPTY = re.compile(r"\s*(?:\{\s*\}|null|\[\s*\])?\s*")
_DOUBLED_BRACE = re.compile(r"\s*\{\s*(?=\{)")
"""A parser that sends an opening brace ahead of the whole object (vllm-project/vllm#51697)."""
_ENVELOPE = re.compile(r"\s*,\s*\"(?:arguments|parameters)\"\s*:\s*")
"""What stands between the name and the arguments of a call in JSON (vllm-project/vllm#47977)."""
_LONGEST_ENVELOPE = 40
_ARGUMENTS_BEGIN = re.compile(r"[<({]|\[ARGS\]")


class StructuredCalls:
    def __init__(self, tools: Mapping[str, Tool], read_call: ReadCall, warnings: Warnings) -> None:
        self._tools = tools
        self._read_call = read_call
        self._warnings = warnings
        self._calls: dict[int, _Arguments | _NamedArguments] = {}

    def feed(self, event: ToolCallDelta, out: list[Event]) -> None:
        call = self._calls.get(event.index)
        name = event.name
        if call is None:
            name, call = self._open(event.name)
            self._calls[event.index] = call
        text = call.add(event.arguments) if event.arguments else ""
        if text == event.arguments and name == event.name:
            out.append(event)
        elif text or event.name or event.id:
            out.append(ToolCallDelta(event.index, text, event.id, name))

    def find_plain(self, event: ToolCallDelta) -> int:
        """Return the index of this call if its arguments can pass while nothing in them is to be looked at, else -1."""
        call = self._calls.get(event.index)
        return event.index if type(call) is _Arguments and call.is_plain else -1

    def skip(self, index: int, arguments: list[str]) -> None:
        """Learn which arguments of a call have passed."""
        call = self._calls[index]
        assert type(call) is _Arguments
        call.skip(arguments)

    def _open(self, name: str) -> "tuple[str, _Arguments | _NamedArguments]":
        if name in self._tools:
            return name, _Arguments(self._warnings, lambda text: self._read_markup(name, text))
        found = find_offered(name, self._tools)
        if found is None:
            if name and _ARGUMENTS_BEGIN.search(name):
                self._warnings.add(
                    f"the model server's call of {name[:80]!r} is passed on as it came: no such function is offered"
                )
            return name, _Arguments(self._warnings)
        arguments = self._find_arguments(found, name)
        if arguments:
            return found, _NamedArguments(arguments, self._warnings)
        return found, _Arguments(self._warnings, lambda text: self._read_markup(found, text))

    def _read_markup(self, name: str, text: str) -> str:
        """Return the arguments of the call of this function that a text is; "" if it is none."""
        found = self._read_call(text)
        if found is None:
            return self._read_arguments(name, text)
        return found[1] if found[0] == name else ""

    def _find_arguments(self, found: str, name: str) -> str:
        """Return the arguments that stand in a name behind that of the offered function, "" if there are none."""
        end = max(map(name.rfind, ">})")) + 1  # behind it may be what a template adds to names
        for begin in islice(_ARGUMENTS_BEGIN.finditer(name, 0, end), _MOST_BEGINNINGS):
            at = begin.start()
            if TOKEN.match(name, at) is not None or find_offered(name[:at], self._tools) != found:
                continue
            if arguments := self._read_arguments(found, name[at:end]):
                return arguments
        return ""

    def _read_arguments(self, name: str, rest: str) -> str:
        """Return the arguments in the text behind a name, "" if there are none."""
        rest = rest.strip()
        if "</arg_key>" in rest and "<arg_key>" not in rest:
            rest = "<arg_key>" + rest.removeprefix("<tool_call>")
        for text in (f"<tool_call>{name}{rest}</tool_call>", f"<tool_call><function={name}>{rest}</function>"):
            if (found := self._read_call(text)) is not None and found[1] != "{}":
                return found[1]
        if rest[:1] == "(" and (found := self._read_call(f"<|python_start|>[{name}{rest}]")) is not None:
            return found[1]
        return ""

    def close(self, out: list[Event], *, whole: bool) -> None:
        """End all calls. `whole`: the reply has ended by itself."""
        for index, call in self._calls.items():
            if rest := call.take_rest(whole=whole):
                out.append(ToolCallDelta(index, rest))
        self._calls.clear()


class _NamedArguments:
    """The arguments of a call whose name has some too: these count if no others come."""

    def __init__(self, in_name: str, warnings: Warnings) -> None:
        self._in_name = in_name
        self._texts: list[str] = []
        self._cleaner = _Arguments(warnings)
        self._warnings = warnings

    def add(self, text: str) -> str:
        self._texts.append(self._cleaner.add(text))
        return ""

    def take_rest(self, *, whole: bool) -> str:
        text = "".join((*self._texts, self._cleaner.take_rest(whole=whole)))
        if _MAY_BE_EMPTY.fullmatch(text):
            return self._in_name
        self._warnings.add("a function call of the model server had arguments in its name, which are left out")
        return text


class _Arguments:
    """The arguments of one call while they arrive. `read_markup` reads those that are a call in text."""

    def __init__(self, warnings: Warnings, read_markup: Callable[[str], str] | None = None) -> None:
        self._warnings = warnings
        self._read_markup = read_markup
        self._markup: list[str] | None = None
        """The arguments so far, if they are markup."""
        self._passed: list[str] = []
        self._has_brace_alone = False
        """Only the opening brace has come."""
        self._head: str | None = ""
        """What came before the object begins; None once it has begun."""
        self._unread: list[str] = []
        """What has passed without being looked at."""
        self._json = JsonEnd()
        self._held = ""
        """What may be tokens at the end of a text."""
        self._before = ""
        """The last character before it."""
        self._is_clean = True
        """No token inside a text was passed on."""
        self._may_have_tags = False
        """A `<` has come."""
        self._tail: str | None = None
        """What came behind the object; None while it is not complete."""

    def add(self, text: str) -> str:
        if self._markup is not None:
            self._markup.append(text)
            return ""
        if self._head is not None:
            text = self._begin(self._head + text)
            if not text:
                return ""
        elif self._has_brace_alone:
            text = self._drop_second_brace(text)
            if not text:
                return ""
        if self._tail is not None:
            self._tail += text
            return ""
        if not self._held and _find_opening(text) is None and text[-1] != "\\" and not _ends_in_escape(text):
            self._unread.append(text)
            self._passed.append(text)
            return text
        if self._read_passed():
            self._tail = text
            return ""
        self._may_have_tags = True
        text, self._held = self._held + text, ""
        text = self._read(text)
        self._passed.append(text)
        return text

    @property
    def is_plain(self) -> bool:
        """Whether the arguments have begun and nothing is held."""
        is_clear = not self._held and not self._has_brace_alone
        return is_clear and self._head is None and self._tail is None and self._markup is None

    def skip(self, texts: list[str]) -> None:
        self._unread += texts
        self._passed += texts

    def _begin(self, text: str) -> str:
        """Return the text from the beginning of the object on; nothing, if that has not come."""
        place = text.find("{")
        if place < 0 and (may_begin_token(text) or (text.lstrip()[:1] == "," and len(text) < _LONGEST_ENVELOPE)):
            self._head = text
            return ""
        self._head = None
        if place > 0 and AROUND_ARGUMENTS.fullmatch(text[:place]):
            text = text[place:]
        elif place > 0 and _ENVELOPE.fullmatch(text[:place]):
            self._warnings.add("what stood before the arguments of a call of the model server is left out")
            text = text[place:]
        if (doubled := _DOUBLED_BRACE.match(text)) is not None:
            self._warn_surplus()
            text = text[doubled.end() :]
        self._has_brace_alone = text.strip() == "{"
        if text[:1] == "{":
            return text
        begun = text.lstrip()
        if self._read_markup is not None and begun[:1] == "<":
            self._markup = [text]
            return ""
        if begun[:1].isalpha() and not begun.startswith("null"):
            self._warnings.add("the arguments of a call of the model server begin with words")
        return text

    def _drop_second_brace(self, text: str) -> str:
        bare = text.lstrip()
        self._has_brace_alone = not bare
        if bare[:1] != "{":
            return text
        self._warn_surplus()
        return bare[1:]

    def _warn_surplus(self) -> None:
        self._warnings.add("surplus braces around the arguments of a call of the model server are left out")

    def _read_passed(self) -> bool:
        """Look at what has passed; return whether the object has ended in it."""
        ended = False
        for text in self._unread:
            ended = ended or self._json.find(text) >= 0
            self._before = text[-1:]
        self._unread.clear()
        return ended

    def _read(self, text: str) -> str:
        """Return the part of the text that can be passed on."""
        out: list[str] = []
        at = 0
        while True:
            found = _find_token(text, at)
            stop = len(text) if found is None else found.start()
            end = self._json.find(text[at:stop])
            if end >= 0:
                out.append(text[at : at + end])
                self._tail = text[at + end :]
                return "".join(out)
            self._pass(text[at:stop], out)
            if found is None:
                return "".join(out)
            at = stop
            if self._json.is_in_text:
                quote = _find_quote(text, stop)
                if quote is None and len(text) - stop < _LONGEST_TOKENS:
                    self._held = text[stop:]
                    return "".join(out)
                if quote is not None and self._cut(text[stop : quote.end() - 1]):
                    at = quote.end() - 1
                    continue
                if _find_markup(text, stop) is not None:
                    self._warnings.add("a text in the arguments of a function call has tokens of a chat template")
            size = max(len(found.group()), 1)
            self._json.find(text[at : at + size])
            self._pass(text[at : at + size], out)
            at += size

    def _pass(self, text: str, out: list[str]) -> None:
        if text:
            out.append(text)
            self._before = text[-1]

    def _cut(self, tokens: str) -> bool:
        """Whether this end of a text inside the arguments is left out."""
        if _TOKENS.fullmatch(tokens) is None:
            return False
        if self._before.isspace() or self._before == '"' or not self._is_clean:
            self._is_clean = False
            self._warnings.add("a text in the arguments of a function call ends with a token of a chat template")
            return False
        self._warnings.add("a token of a chat template at the end of a text in the arguments of a call is left out")
        return True

    def take_rest(self, *, whole: bool) -> str:
        """Return what is still held, as no more comes."""
        if self._may_have_tags:
            self._warn_of_reasoning()
        if self._markup is not None:
            return self._take_markup()
        if self._head:
            text, self._head = self._head, None
            return text
        if self._held:
            text, self._held = self._held, ""
            return self._json.end_text() if whole and _is_parameter_closer(text) and self._cut(text) else text
        if whole and self._tail is None and self._passed and self._passed[0].lstrip()[:1] == "{":
            # the parser of a server lost the last brace (sgl-project/sglang#19345)
            self._warnings.add("the arguments of a call of the model server are not complete")
        return self._take_tail(self._tail or "")

    def _warn_of_reasoning(self) -> None:
        """Add a warning if a text has a closing tag of reasoning that it has not opened (vllm-project/vllm#44676). The
        text stays: it can be a program's."""
        tag = _find_think_tag("".join((*self._passed, self._held)))
        if tag is not None and tag.group(1):
            self._warnings.add("a text in the arguments of a function call has a closing tag of reasoning")

    def _take_tail(self, tail: str) -> str:
        """Return what is passed on of the text behind the object."""
        rest = tail.lstrip(" \t\r\n}")
        if not rest or AROUND_ARGUMENTS.fullmatch(rest) or may_begin_token(rest):
            if "}" in tail[: len(tail) - len(rest)]:
                self._warn_surplus()
            return ""
        if rest.strip() == "".join(self._passed).strip():
            self._warnings.add("the arguments of a call of the model server came twice")
            return ""
        self._warnings.add("the model server sent text behind the arguments of a call, which is passed on as it came")
        return tail

    def _take_markup(self) -> str:
        assert self._markup is not None and self._read_markup is not None
        text, self._markup = "".join(self._markup), None
        found = self._read_markup(text)
        if found:
            self._warnings.add("the model server sent a call in text as the arguments of a call")
        return found or text


def _ends_in_escape(text: str) -> bool:
    return text[-5:].find("\\u") >= 0 and _find_token(text, max(len(text) - 5, 0)) is not None
