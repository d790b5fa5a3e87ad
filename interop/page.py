"""The part of docs/evidence/compatibility.md that is about clients, between its markers."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from interop.environments import clients
from interop.outcomes import Outcome

PAGE = Path(__file__).resolve().parents[1] / "docs/evidence/compatibility.md"
BEGIN, END = "<!-- clients: written by make interop -->", "<!-- end of clients -->"

HEAD = """\
## Client packages

Each package, in an environment of its own, sends requests to a gateway with the demo model and a few model servers that
misbehave on purpose, without a cache and with one that answers identical requests. Failed checks are below the table:
*client* because of the client, *FAIL* because of the gateway. The programs and all packages are in `interop`. In the
rows of goldens the types and parsers of the SDK read the gateway's own output for every golden.
"""


def write_all(outcomes: list[Outcome]) -> None:
    """Puts the section into the page, in place of the one that is there."""
    PAGE.write_text(with_section(PAGE.read_text("utf-8"), "\n".join(write_lines(outcomes))), "utf-8")


def write_some(outcomes: list[Outcome]) -> None:
    """Replaces what the section has about the clients of the outcomes, and leaves it about the others."""
    page = PAGE.read_text("utf-8")
    titles = [client.title for client in clients([])]
    PAGE.write_text(with_section(page, merge_sections(kept(page), "\n".join(write_lines(outcomes)), titles)), "utf-8")


def merge_sections(old: str, new: str, titles: Sequence[str]) -> str:
    """The new section with the clients of the old one that it does not have, in the order of the titles."""
    if not old.strip():
        return new
    _, old_rows, old_blocks = _split_section(old)
    head, new_rows, new_blocks = _split_section(new)
    old_blocks = {title: block for title, block in old_blocks.items() if title not in new_rows}
    rows, blocks = {**old_rows, **new_rows}, {**old_blocks, **new_blocks}
    order = [title for title in titles if title in rows]
    parts = (f"\n### {blocks[title].strip()}\n" for title in order if title in blocks)
    return "\n".join([head, *(rows[title] for title in order)]) + "\n" + "".join(parts)


def _split_section(section: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """What stands before the first row, the rows by client, and the parts by client."""
    start, *blocks = section.strip().split("\n### ")
    head, line, rows = start.partition("\n|---|---|---|\n")
    by_title = {row.split("|")[1].strip(): row for row in rows.strip().splitlines()}
    return head + line.rstrip("\n"), by_title, {block.partition("\n")[0].strip(): block for block in blocks}


def with_section(page: str, section: str) -> str:
    without = re.sub(f"\n*{re.escape(BEGIN)}.*{re.escape(END)}\n*", "\n", page, flags=re.DOTALL)
    return f"{without.rstrip()}\n\n{BEGIN}\n{section.strip()}\n{END}\n"


def kept(page: str) -> str:
    """The section of a page as it is, to be put into the next one; empty if there is none."""
    found = re.search(f"{re.escape(BEGIN)}(.*){re.escape(END)}", page, flags=re.DOTALL)
    return found[1] if found else ""


def write_lines(outcomes: list[Outcome]) -> Iterable[str]:
    """The counts of every client, and below them what it needs and what does not pass."""
    yield HEAD
    by_client = [(client, list(rows)) for client, rows in groupby(outcomes, key=lambda one: one.client)]
    yield "| client | package | passed |\n|---|---|---|"
    for client, rows in by_client:
        passed = sum(row.verdict == "pass" for row in rows)
        yield f"| {client.title} | `{client.packages[0]}` | {passed} of {len(rows)} |"
    for client, rows in by_client:
        failed = [row for row in rows if row.verdict != "pass"]
        if client.note or failed:
            yield f"\n### {client.title}\n"
        if client.note:
            yield f"{client.note}\n"
        if failed:
            yield "| check | |\n|---|---|"
            yield from (f"| {row.check} | {_remark(row)} |" for row in failed)


def _remark(row: Outcome) -> str:
    why = row.fault if row.verdict == "client" else row.detail
    return f"**{row.verdict}**: {' '.join(str(why).split())}".replace("|", "\\|")
