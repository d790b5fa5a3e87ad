"""Writes docs/evidence/fault-model.md: which fault gives which outcome in which family."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.steps.tool_parsers.families import FAMILIES

from tests.faults.controls import list_controls
from tests.faults.judge_replies import Told, find_usages, judge_events, read_batches
from tests.faults.judge_reports import judge_call_report, judge_report
from tests.faults.known_replies import APIS as REPLY_APIS
from tests.faults.known_replies import REPLIES, ApiName, write_stream
from tests.faults.model import CALL_FAULTS, EXCEPTIONS, PAIR_EXCEPTIONS, PROSE, TEXT_FAULTS, Fault, find_pairs
from tests.faults.replies import APIS, VALUES, Outcome, judge, judge_call, read_text
from tests.faults.reply_model import REPLY_EXCEPTIONS, REPLY_FAULTS, ReplyFault, make_faulty
from tests.faults.reports import CALL_REPORTS, LATER_TEXT_REPORTS, TEXT_REPORTS
from tests.steps.sample_calls import WRITTEN

_MARKS: dict[Outcome | None, str] = {"right": "✓", "warned": "w", "text": "t", "wrong": "✗", None: "–"}
_REPLY_MARKS = {**_MARKS, "error": "e"}
_ORDER: tuple[Outcome, ...] = ("wrong", "text", "error", "warned", "right")


def _outcome(fault: Fault, family: str, mode: str) -> Outcome | None:
    """The worst outcome; None if the family has no such place."""
    found: set[Outcome] = set()
    for values in VALUES:
        text = fault.apply(WRITTEN[family](values), family)
        if text is not None:
            prose = [PROSE[fault.operator]] if fault.operator in PROSE else []
            found.add(judge(read_text(text, mode, None), [("f", values)], prose, text))
    return next((one for one in _ORDER if one in found), None)


@dataclass
class _Row:
    fault: Fault
    marks: dict[str, str]
    """The mark of each family; two with a stroke between them where it matters whether the family is configured."""


def _rows() -> Iterator[_Row]:
    for fault in TEXT_FAULTS:
        marks = {}
        for family in FAMILIES:
            both = [_MARKS[_outcome(fault, family, mode)] for mode in (family, "auto")]
            marks[family] = both[0] if both[0] == both[1] else "/".join(both)
        yield _Row(fault, marks)


def _text_rows(rows: Iterable[_Row]) -> Iterator[str]:
    """Name the families that do not give the call; those without such a place are only counted."""
    faults: dict[tuple[str, int, str], list[str]] = {}
    for row in rows:
        others: dict[str, list[str]] = {}
        for family, mark in row.marks.items():
            if mark not in "✓–":
                others.setdefault(mark, []).append(f"`{family}`")
        named = "; ".join(f"{mark} {', '.join(families)}" for mark, families in others.items())
        count = sum(mark != "–" for mark in row.marks.values())
        fault = _with_origin(row.fault.operator, row.fault.source)
        faults.setdefault((row.fault.place, count, named), []).append(fault)
    for (place, count, named), several in faults.items():
        yield f"| {place} | {count} | {'; '.join(several)} | {named} |"


def _call_rows() -> Iterator[str]:
    yield from _join_rows(
        (
            fault.place,
            "".join(_MARKS[judge_call(fault, api, 5)] for api in APIS),
            _write_code(fault.operator),
            fault.source,
        )
        for fault in CALL_FAULTS
    )


def _reply_rows() -> Iterator[str]:
    yield from _join_rows(
        (
            fault.place,
            "".join(_REPLY_MARKS[_reply_outcome(fault, api)] for api in REPLY_APIS),
            fault.operator,
            _origin(fault),
        )
        for fault in REPLY_FAULTS
    )


def _origin(fault: ReplyFault) -> str:
    return REPLY_EXCEPTIONS.get((fault.place, fault.operator), fault.source)


def _join_rows(rows: Iterable[tuple[str, str, str, str]]) -> Iterator[str]:
    """Write one row for all faults of a place with the same marks, each with its source where it has one."""
    faults: dict[tuple[str, str], list[str]] = {}
    for place, marks, fault, source in rows:
        faults.setdefault((place, marks), []).append(_with_origin(fault, source))
    for (place, marks), named in faults.items():
        yield f"| {place} | {marks} | {_join_named(named)} |"


def _join_named(faults: Iterable[str]) -> str:
    """Write the beginning that faults behind each other share, up to `, as`, once."""
    parts, before = list[str](), ""
    for fault in faults:
        head, as_, rest = fault.partition(", as ")
        parts.append(fault if not as_ else rest if head == before else f"**{head}, as** {rest}")
        before = head if as_ else ""
    return "; ".join(parts)


def _with_origin(fault: str, source: str) -> str:
    return fault if source == "derived" else f"{fault} ({source})"


def _reply_outcome(fault: ReplyFault, api: ApiName) -> Outcome | None:
    """The worst outcome of the known replies; None if the API has no such place."""
    found: set[Outcome] = set()
    for reply in REPLIES.values():
        frames = make_faulty(fault, api, reply)
        if frames is not None:
            data = write_stream(frames)
            usages = find_usages(reply, may_be_lost=fault.loses_usage)
            found.add(judge_events(Told(read_batches(api, data, len(data))), reply, usages))
    return next((one for one in _ORDER if one in found), None)


def _count_reports() -> str:
    judged = Counter(judge_report(report) for report in (*TEXT_REPORTS, *LATER_TEXT_REPORTS))
    judged.update(judge_call_report(report) for report in CALL_REPORTS)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in judged.items())
    return f"`tests/faults/reports.py` has {judged.total()} reports of texts and calls, with what was sent: {counts}."


def _write_code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|").replace("\n", "↵")


def document() -> str:
    rows, call_rows = list(_rows()), list(_call_rows())
    marks = Counter(mark for row in rows for mark in row.marks.values())
    counts = ", ".join(f"{mark} {count}" for mark, count in sorted(marks.items(), key=lambda item: -item[1]))
    exceptions = [f"- {', '.join(sorted(names))}: {reason}." for names, reason in EXCEPTIONS.items()]
    return "\n".join(
        [
            "# Faults of function calls",
            "",
            "Written by `scripts/fault-model` from `tests/faults`, which tries every cell, whole, byte by byte and cut",
            "by chance. Faults that are reported of function calls are applied to calls as each family of models",
            "writes them, by one and by two. What must come out is known: the call; or text, with a warning; never",
            "another call, other arguments, or markup without a warning.",
            "",
            "## Calls in text",
            "",
            "✓ is the call, w text with a warning, t text that has no token of a template any more, – a family without",
            "such a place. Where two marks stand, the first is with the family configured, the second without.",
            "",
            f"{len(FAMILIES)} families ([names](../reference/profiles.md#calls-in-text)). Cells: {counts}.",
            "",
            "| place | families with such a place | faults, with the source of each that was reported | not ✓ |",
            "|---|---|---|---|",
            *_text_rows(rows),
            "",
            "Two faults leave nothing by which a call could be known in these pairs:",
            "",
            *exceptions,
            "",
            f"{len(list(list_controls()))} texts about calls, which have whole calls in code, quotations, lists,",
            "tables and sentences, come out unchanged, without a call.",
            "",
            "## Structured calls",
            "",
            f"One mark for each API: {', '.join(APIS)}.",
            "",
            "| place | APIs | faults, with the source of each that was reported |",
            "|---|---|---|",
            *call_rows,
            "",
            f"Two faults one after the other, {len(list(find_pairs()))} pairs, give that call, too. Left out are:",
            "",
            *(f"- {_write_code(name)}: {reason}." for name, reason in PAIR_EXCEPTIONS.items()),
            "",
            "## Whole replies",
            "",
            "✓ is the reply, w the reply or a part of it with a warning, e an error, – an API without such a place,",
            "✗ an exception, with its reason. Three known replies are streamed by each API with each fault, in one",
            "read and in reads of seven bytes, and read by clients of all formats; those of Messages and Responses",
            "also where the server's own events go on to a client of the same API.",
            "",
            f"One mark for each API: {', '.join(REPLY_APIS)}.",
            "",
            "| place | APIs | faults, with the source of each that was reported |",
            "|---|---|---|",
            *_reply_rows(),
            "",
            SIDE_BY_SIDE,
            "## Public reports",
            "",
            "The latest set has 79 reports of 2026 about texts, calls, reasoning, endings and usage: the first results",
            "of searches by server and kind that say what was sent and were not known before. At the first try 65 held",
            "(82 %), now 76. Three stay: a text that comes again as the last delta (infiniflow/ragflow#15443), a call",
            "behind a garbled word (bayesimpact/bayes-platform#731), and Azure's note that a text was not filtered",
            "(BaranziniLab/biorouter#326), which is no refusal.",
            "",
            _count_reports(),
            "",
        ]
    )


SIDE_BY_SIDE = """\
## Side by side

The parsers of vLLM 0.33.0 and SGLang 0.5.23, imported without their engines, read the same texts, whole and token by
token: each family's call with 23 sets of values (empty, line breaks, quotes, tags, entities, numbers as texts, nested),
alone and behind a sentence, and the faults above, where their parser reads the call without a fault. With the family
configured, no text that one of them reads right is read differently here.

| | families | calls without a fault | calls with a fault |
|---|---|---|---|
| vLLM | 27 | 2,212 of 2,484 right | 1,134 of 1,760 right |
| SGLang | 25 | 2,210 of 2,300 right | 1,076 of 1,616 right |

Where they differ from each other or from here:

- a line break at the end of a text of MiniMax, Muse and MiniCPM 5: vLLM and this gateway keep it, SGLang drops it.
- HTML entities in a text of MiMo: SGLang decodes them, vLLM and this gateway keep them.
- a missing closer, a name with a prefix, a token behind the call: there the call is lost, or has another name.

Their parsers of reasoning read 17 texts of their own form: line breaks around the tags, without the opening tag (the
profile says so), never closed, empty, a tag twice, a second block, tags in the answer. Here each text was also cut at
every place.

| | parsers | right there | right here |
|---|---|---|---|
| vLLM | 30 | 729 of 1,020 | 1,004 |
| SGLang | 32 | 837 of 1,088 | 1,070 |

- a tag twice: SGLang and some parsers of vLLM show the second opening as reasoning, the second closing as answer.
- a second block behind the first: both have it in the answer.
- without reasoning: parsers of both that expect some take the whole answer for it.
- tags that the answer names: vLLM leaves them out of streams.
- channels of gpt-oss that the answer quotes begin a channel here and in SGLang's streams.

[Profiles](../reference/profiles.md#calls-in-text) name the families of their parsers with other names.
"""


if __name__ == "__main__":
    print(document(), end="")
