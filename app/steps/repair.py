"""Arguments that are broken JSON are repaired when their call is whole (`generate_cfg.repair_arguments`).

Only the end shows that arguments are broken, and nothing is taken back: the name of a call is told at once, its
arguments with the end of the reply.
"""

import json

import json_repair

from app.chat.accumulator import is_json
from app.chat.events import Event, Extra, Failed, Finish, ToolCallDelta


class RepairStage:
    def __init__(self) -> None:
        self._held: dict[int, list[str]] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is ToolCallDelta:
                known = event.index in self._held
                self._held.setdefault(event.index, []).append(event.arguments)
                if not known:
                    out.append(ToolCallDelta(event.index, "", event.id, event.name))
                continue
            if type(event) is Finish:
                self._flush(out, repaired=True)
            elif type(event) is Failed:
                self._flush(out, repaired=False)
            out.append(event)
        return out

    def _flush(self, out: list[Event], *, repaired: bool) -> None:
        """A reply that broke is told as it came."""
        for index, pieces in self._held.items():
            raw = "".join(pieces)
            text = repair(raw) if repaired else None
            if raw or text:
                out.append(ToolCallDelta(index, raw if text is None else text))
            if text is not None:
                out.append(Extra({"repaired": True, "raw_arguments": raw}, index))
        self._held.clear()


def repair(text: str) -> str | None:
    """The arguments as a JSON object; None where they are JSON already or nothing sensible can be made of them."""
    if is_json(text):
        return None
    try:
        value = json_repair.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or (not value and text.strip(" \t\r\n{}")):
        return None
    return json.dumps(value, ensure_ascii=False)
