"""Masks the values of a conversation.

Texts of the system, users and tools are searched. Turns of the assistant are not: in them only values that were found
before are replaced. So a reply that was restored for the client masks back to the bytes that the model wrote, whose
signature and place in the prompt cache stay valid, and what the model made up is left alone.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from app.chat.known_conversation import KnownConversation
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.guards.detectors import choose_spans
from app.guards.parts import JSON_STRING, OPAQUE_REASONING
from app.guards.placeholders import Placeholders
from app.guards.spans import HiddenText, MaskedConversation, MaskedText, Refused, Span, SpanRule

_ESCAPE = re.compile(r"\\+(?:u[dD][89abAB][0-9A-Fa-f]{2}\\+u[dD][c-fC-F][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|/)")
_DIGITS = re.compile(r"u([0-9A-Fa-f]{4})")
"""At any depth of JSON within JSON."""

FindSpans = Callable[[str], Sequence[tuple[Span, SpanRule]]]


def _has_escapes(text: str) -> bool:
    return "\\u" in text or "\\/" in text


def read_escapes(text: str) -> HiddenText | None:
    """Return a text without the escapes that JSON does not need; None if it has none. It may be a part of JSON."""
    if not _has_escapes(text):
        return None
    out: list[str] = []
    places: list[tuple[int, int, int, int]] = []
    done = length = 0
    for found in _ESCAPE.finditer(text):
        length += found.start() - done
        places.append((length, length + 1, *found.span()))
        out += (text[done : found.start()], _read_escape(found))
        done, length = found.end(), length + 1
    return HiddenText("".join((*out, text[done:])), tuple(places))


def _read_value(text: str) -> str:
    """Return a value as it is behind the escapes of JSON."""
    return _ESCAPE.sub(_read_escape, text) if "\\" in text else text


def _read_escape(found: "re.Match[str]") -> str:
    return _read_written(found.group())


@lru_cache(4096)
def _read_written(escape: str) -> str:
    """Return one character. Half a surrogate pair could not be written."""
    if escape.endswith("/"):
        return "/"
    first, *second = [int(digits, 16) for digits in _DIGITS.findall(escape)]
    if second:
        return chr(0x10000 + ((first & 0x3FF) << 10) + (second[0] & 0x3FF))
    return "\ufffd" if 0xD800 <= first <= 0xDFFF else chr(first)


class ValueMasker:
    """Masks texts with the placeholders of one request."""

    def __init__(
        self,
        find: FindSpans,
        placeholders: Placeholders,
        ignored: Callable[[str], bool],
        find_of_model: FindSpans | None = None,
    ) -> None:
        """`find_of_model` searches what no text of the model may have; None: there is nothing such."""
        self._find = find
        self._find_of_model = find_of_model
        self._placeholders = placeholders
        self._ignored = ignored
        self.counts: dict[str, int] = {}
        """How many values each guard has found."""
        self.kinds: dict[str, int] = {}
        """How many values were masked or redacted, by kind."""
        self.words: dict[tuple[str, str], str] = {}
        """The words of the values that were found before the place at which it is, by kind and value."""
        self.refused: Refused | None = None
        """Why the first of `mask_value` that is refused is so."""
        self._longest_first: list[tuple[str, str]] = []

    def mask(self, text: str) -> MaskedText:
        """Search a text, and mask what is found; in JSON also behind the escapes of its strings."""
        if not text:
            return MaskedText(text)
        return self._mask(text, self._find_all(text), has_escapes=_has_escapes(text))

    def _find_all(self, text: str) -> Sequence[tuple[Span, SpanRule]]:
        """Return what is found in a text, and behind its escapes."""
        as_it_is = self._find(text)
        if not _has_escapes(text):
            return as_it_is
        behind = self._find(_ESCAPE.sub(_read_escape, text))
        view = read_escapes(text) if as_it_is or behind else None
        if view is None:
            return ()
        found = [(span, rule) for span, rule in as_it_is if view.is_outside(span.start, span.end)]
        for span, rule in behind:
            place = view.find_original(span.start, span.end)
            if place is not None:
                found.append((Span(*place, span.kind), rule))
        return found

    def hide(self, text: str) -> HiddenText:
        """Return a text without the values that are found in it, but for those that are only counted, and without the
        escapes of JSON."""
        view = read_escapes(text)
        found = [(span, rule) for span, rule in self._find_all(text) if rule.action != "observe"] if text else []
        rules = {id(span): rule for span, rule in found}
        new: list[tuple[int, int, str]] = []
        for group in choose_spans(text, [span for span, _ in found], self._ignored) if found else ():
            start, end = group[0].start, group[-1].end
            masks = rules[id(group[0])].action == "mask"
            value = text[start:end] if view is None else _read_value(text[start:end])
            new.append((start, end, self._placeholders.mask(group[0].kind, value) if masks else f"[{group[0].kind}]"))
        for first, last, start, end in view.places if view is not None else ():
            if view is not None and not any(begin <= start < stop for begin, stop, _ in new):
                new.append((start, end, view.text[first:last]))
        out: list[str] = []
        places: list[tuple[int, int, int, int]] = []
        done, length = 0, 0
        for start, end, word in sorted(new):
            length += start - done
            places.append((length, length + len(word), start, end))
            out += (text[done:start], word)
            done, length = end, length + len(word)
        return HiddenText("".join((*out, text[done:])), tuple(places)) if places else HiddenText(text)

    def mask_of_model(self, text: str) -> MaskedText:
        """Mask the values that were found so far. Others are left alone, but for those that no text may have."""
        text = self.mask_known(text)
        if not text or self._find_of_model is None:
            return MaskedText(text)
        return self._mask(text, list(self._find_of_model(text)))

    def _mask(self, text: str, found: Sequence[tuple[Span, SpanRule]], *, has_escapes: bool = False) -> MaskedText:
        if not found:
            return MaskedText(text)
        rules = {id(span): rule for span, rule in found}
        observed = [span for span, rule in found if rule.action == "observe"]
        for span, *_ in choose_spans(text, observed, self._ignored) if observed else ():
            self._count(rules[id(span)])
        out: list[str] = []
        place, refused = 0, None
        enforced = [span for span, rule in found if rule.action != "observe"]
        for group in choose_spans(text, enforced, self._ignored):
            span, rule = replace(group[0], end=group[-1].end), rules[id(group[0])]
            self._count(rule)
            strict = next((one for one in group if rules[id(one)].action == "reject"), None)
            if strict is not None:
                refused = refused or Refused(rules[id(strict)].guard, strict.kind)
            else:
                value = text[span.start : span.end]
                value = _read_value(value) if has_escapes else value
                out += (text[place : span.start], self._write(span.kind, value, rule))
                place = span.end
        return MaskedText("".join((*out, text[place:])) if out else text, refused)

    def _count(self, rule: SpanRule) -> None:
        self.counts[rule.guard] = self.counts.get(rule.guard, 0) + 1

    def _write(self, kind: str, value: str, rule: SpanRule) -> str:
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if rule.action == "redact":
            return f"[{kind}]"
        placeholder = self._placeholders.mask(kind, value)
        self.words[kind, value] = self._placeholders.words[kind, value]
        return placeholder

    def mask_known(self, text: str) -> str:
        """Mask the values that were found so far, and search for no others."""
        words = self.words
        if not words or not text:
            return text
        if len(self._longest_first) != len(words):
            self._longest_first = sorted(words, key=lambda pair: -len(pair[1]))
        for pair in self._longest_first:
            if pair[1] in text:
                text = text.replace(pair[1], f"[{words[pair]}]")
        return text

    def mask_arguments(self, arguments: str, *, of_model: bool) -> MaskedText:
        """Mask the strings of a JSON text, which has escapes of its own; as a text, if it is not valid JSON."""
        if of_model and self._find_of_model is None and "\\" not in arguments and not self.has_known(arguments):
            return MaskedText(arguments)
        mask = self.mask_of_model if of_model else self.mask
        masked, refused = self._mask_strings(arguments, mask)
        if refused is None and not _is_json(masked):
            return mask(masked)
        return MaskedText(masked, refused)

    @staticmethod
    def _mask_strings(text: str, mask: Callable[[str], MaskedText]) -> tuple[str, Refused | None]:
        """Return a JSON text with masked strings, and why the first of them that is refused is so."""
        refused: list[Refused] = []

        def mask_string(found: "re.Match[str]") -> str:
            quoted = found.group()
            try:
                plain = json.loads(quoted, strict=False)
            except ValueError:
                return quoted
            masked = mask(plain)
            if masked.refused is not None:
                refused.append(masked.refused)
            return quoted if masked.text == plain else json.dumps(masked.text, ensure_ascii=False)

        return JSON_STRING.sub(mask_string, text), refused[0] if refused else None

    def mask_value(self, value: Any) -> Any:
        """Search the strings of a value as of JSON, and mask what is found, and what was found so far."""
        return _map_strings(value, self._mask_string)

    def _mask_string(self, text: str) -> str:
        found = self.mask(text)
        self.refused = self.refused or found.refused
        return self.mask_known(found.text)

    def mask_name(self, name: str) -> str:
        """Mask the name of a sender. A name is not refused: where a guard rejects such values, it becomes `[KIND]`."""
        found = self.mask(name)
        return self.mask_known(found.text if found.refused is None else f"[{found.refused.kind}]")

    def mask_known_value(self, value: Any) -> Any:
        """Mask the values that were found so far in the strings of a value as of JSON; the same object if there are
        none."""
        return _map_strings(value, self.mask_known) if self.has_known(value) else value

    def has_known(self, value: Any) -> bool:
        """Whether a value that was found so far stands in the strings of a value as of JSON."""
        if isinstance(value, str):
            return any(known in value for _, known in self.words)
        if isinstance(value, Mapping):
            value = [*value, *value.values()]
        return isinstance(value, list | tuple) and any(map(self.has_known, value))


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_map_strings(item, change) for item in value]
    if isinstance(value, Mapping):
        return {change(name): _map_strings(item, change) for name, item in value.items()}
    return value


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


_NOTHING = MaskedConversation(())


def find_masked(
    messages: Sequence[Message], known: KnownConversation | None, what: tuple[Any, ...]
) -> MaskedConversation:
    """Return what was made of the beginning of a conversation for an earlier request: clients change the last ones."""
    if known is None:
        return _NOTHING
    found, count = known.find_common(what, messages)
    done: MaskedConversation = found.cut(count) if count else _NOTHING
    return done


def mask_conversation(
    messages: Sequence[Message],
    masker: ValueMasker,
    placeholders: Placeholders,
    known: KnownConversation | None,
    what: tuple[Any, ...] = (),
    done: MaskedConversation | None = None,
) -> MaskedConversation:
    """Mask the messages of a conversation. The beginning that is known for `what` is not searched again: `done`, if it
    was looked for before."""
    if known is None:
        return _extend(_NOTHING, messages, masker)
    done = find_masked(messages, known, what) if done is None else done
    placeholders.add(done.words)
    masker.words.update(done.words)
    done = _extend(done, messages[len(done.messages) :], masker)
    known.keep(what, messages, done)
    return done


def _extend(done: MaskedConversation, messages: Sequence[Message], masker: ValueMasker) -> MaskedConversation:
    out, refused, counts = list(done.messages), list(done.refused), list(done.counts)
    for message in messages:
        masked, reasons = mask_message(message, masker)
        refused += [(len(out), place, why) for place, why in reasons]
        out.append(masked)
        counts.append(len(masker.words))
    return MaskedConversation(tuple(out), tuple(masker.words.items()), tuple(refused), tuple(counts))


def mask_quotes(
    messages: Sequence[Message], masker: ValueMasker, files: Mapping[str, Mapping[tuple[str, str], str]]
) -> Sequence[Message]:
    """Mask the values of files, by the URLs of these, in the turns of the assistant behind them."""
    out: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            out.append(mask_message(message, masker)[0] if masker.words else message)
            continue
        out.append(message)
        for part in message.parts:
            for item in part.content if isinstance(part, ToolResult) else (part,):
                for url in item.urls if isinstance(item, Media) else ():
                    masker.words.update(files.get(url, {}))
    return out


def mask_message(message: Message, masker: ValueMasker) -> tuple[Message, list[tuple[int, Refused]]]:
    """Return a message with masked values, the same object if there are none; and which parts are refused."""
    is_assistant = message.role == "assistant"
    refused: list[tuple[int, Refused]] = []
    parts: list[Part] = []
    extra = message.extra
    for place, part in enumerate(message.parts):
        masked, why = _mask_part(part, masker, of_model=is_assistant)
        parts.append(masked)
        if why is not None:
            refused.append((place, why))
        if isinstance(part, Reasoning) and masked is not part and masked != _mask_known(part, masker):
            # What a server has signed or encrypted holds the text that is left out.
            extra = {key: value for key, value in extra.items() if key not in OPAQUE_REASONING}
    if is_assistant and extra and masker.words:
        extra = masker.mask_known_value(extra)  # signed reasoning has its text twice, which was restored for the client
    name = None if message.name is None else masker.mask_name(message.name)
    same = name == message.name and extra is message.extra
    same = same and all(one is other for one, other in zip(parts, message.parts, strict=True))
    return (message if same else replace(message, parts=tuple(parts), name=name, extra=extra)), refused


def _mask_known(part: Reasoning, masker: ValueMasker) -> Reasoning:
    return replace(part, text=masker.mask_known(part.text))


def _mask_part(part: Part, masker: ValueMasker, *, of_model: bool) -> tuple[Part, Refused | None]:
    mask = masker.mask_of_model if of_model else masker.mask
    if isinstance(part, Text | Reasoning):
        found = mask(part.text)
        return (part if found.text == part.text else replace(part, text=found.text)), found.refused
    if isinstance(part, ToolCall):
        found = masker.mask_arguments(part.arguments, of_model=of_model)
        extra = masker.mask_known_value(part.extra) if part.extra and masker.words else part.extra
        same = found.text == part.arguments and extra is part.extra
        return (part if same else replace(part, arguments=found.text, extra=extra)), found.refused
    if isinstance(part, ToolResult):
        return _mask_result(part, masker)
    if part.name is not None:
        found = masker.mask(part.name)
        name = masker.mask_known(found.text)
        return (part if name == part.name else replace(part, name=name)), found.refused
    return part, None


def _mask_result(part: ToolResult, masker: ValueMasker) -> tuple[ToolResult, Refused | None]:
    contents = [_mask_part(item, masker, of_model=False) for item in part.content]
    why = next((why for _, why in contents if why is not None), None)
    content = tuple([item for item, _ in contents if isinstance(item, Text | Media)])
    same = all(one is other for one, other in zip(content, part.content, strict=True))
    return (part if same else replace(part, content=content)), why
