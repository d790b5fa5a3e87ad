"""Stop words that a server let through end the reply where they begin.

Only what the model says is searched: a thought may name a stop word, and Qwen-Agent never looks there. Any cut of the
text gives the same reply. The earliest word wins; held back is only an end of the text that can still become one, so
that nothing but a whole word is ever taken away. Anything but text ends the search for a word that has begun: a word
does not reach over a thought or a call.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Extra, Finish, TextDelta
from app.steps.thinking import held_suffix


def stop_words(params: Mapping[str, Any], own: Sequence[str] = ()) -> tuple[str, ...]:
    """The words to look for, `own` are the gateway's; none where the caller wants them left in the reply."""
    body = params.get("extra_body") or {}
    if params.get("skip_stopword_postproc") or body.get("include_stop_str_in_output"):
        return ()
    stop = params.get("stop") or ()
    words = [stop] if isinstance(stop, str) else list(stop)
    return tuple(word for word in dict.fromkeys([*words, *own]) if word)


class StopStage:
    """After a cut it yields `Finish` at once and then nothing more: the rest of the reply need not be read."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words`: at least one, none of them empty."""
        self._words = tuple(words)
        self._whole = re.compile("|".join(re.escape(word) for word in self._words))
        self._held = ""
        self._ended = False

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        if self._ended:
            return out
        for place, event in enumerate(events):
            if type(event) is TextDelta and not event.refusal:
                self._ended = self._text(event, out)
            elif type(event) is Extra:
                out.append(event)
            else:
                self._ended = self._flush(out)
                if not self._ended:
                    out.append(event)
            if self._ended:
                out.append(_finish(events[place:]))
                break
        return out

    def _text(self, event: TextDelta, out: list[Event]) -> bool:
        """True when a word was found."""
        text = self._held + event.text
        found = self._whole.search(text)
        keep = max(held_suffix(text, word) for word in self._words)
        # A word that began earlier and is still open wins over a whole one, if it comes to its end.
        if found is not None and found.start() <= len(text) - keep:
            _say(text[: found.start()], out)
            return True
        if not keep and not self._held:
            out.append(event)
        else:
            _say(text[: len(text) - keep], out)
        self._held = text[len(text) - keep :]
        return False

    def _flush(self, out: list[Event]) -> bool:
        """True when what was held has a word: a longer one, that began earlier, did not come to its end."""
        text, self._held = self._held, ""
        found = self._whole.search(text)
        _say(text if found is None else text[: found.start()], out)
        return found is not None


def _say(text: str, out: list[Event]) -> None:
    if text:
        out.append(TextDelta(text))


def _finish(events: list[Event]) -> Finish:
    """With what the end of the reply says, where it is known already: a whole reply comes in one piece."""
    last = events[-1]
    return replace(last, reason="stop", native_reason=None) if isinstance(last, Finish) else Finish("stop")
