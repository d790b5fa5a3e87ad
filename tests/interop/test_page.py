"""What `make interop` writes, and that nothing else of the page is touched."""

import pytest
from interop.environments import HERE, Client, clients
from interop.outcomes import Outcome, together
from interop.page import PAGE, kept, merge_sections, with_section, write_lines


def outcome(check: str, ok: bool) -> Outcome:
    return Outcome(Client("c", "C", "clients/c.py", ("c==1",), "", {"known": "its own fault"}), "1", check, ok, "")


@pytest.mark.parametrize("page", ["# Page\n\nText.\n", "", "# Page\n\n\n"])
def test_a_section_replaces_the_one_before_and_nothing_else(page: str) -> None:
    first = with_section(page, "one")
    second = with_section(first, "two")
    assert second == first.replace("one", "two")
    assert (kept(second).strip(), kept(page)) == ("two", "")
    assert second.startswith(page.rstrip())


def section(**clients: str) -> str:
    rows = "".join(f"| {name} | `{text}` | 1 of 1 |\n" for name, text in clients.items())
    blocks = "".join(f"\n### {name}\n\n| check | |\n|---|---|\n| {text} | pass |\n" for name, text in clients.items())
    head = "| client | package | passed |\n|---|---|---|"
    return f"## Clients\n\n{head}\n{rows}{blocks}"


def test_a_run_of_some_clients_replaces_what_the_section_has_about_them_and_keeps_the_others() -> None:
    merged = merge_sections(section(a="1", b="2"), section(b="3", c="4"), ["a", "b", "c"])
    assert merged.strip() == section(a="1", b="3", c="4").strip()
    assert merge_sections("", section(a="1"), ["a"]) == section(a="1")


def test_clients_stand_in_the_order_of_the_table_and_not_in_that_of_the_runs() -> None:
    merged = merge_sections(section(c="1", b="2"), section(a="3"), ["a", "b", "c"])
    assert merged.strip() == section(a="3", b="2", c="1").strip()
    assert merge_sections(section(gone="1"), section(a="2"), ["a"]).strip() == section(a="2").strip()


def test_a_client_has_a_part_of_its_own_only_if_there_is_something_to_say() -> None:
    outcomes = [outcome("known", False), outcome("a", True)]
    text = "\n".join(write_lines(outcomes))
    assert ("| C | `c==1` | 1 of 2 |" in text, text.count("### "), "| a |" in text) == (True, 1, False)
    assert "**client**: its own fault" in text
    mended = "\n".join(write_lines([outcome("a", True)]))
    assert "### " not in mended
    assert "### " not in merge_sections(text, mended, ["C"])


def test_the_section_of_the_page_outlives_the_rest_of_it() -> None:
    page = PAGE.read_text("utf-8")
    assert with_section(page, kept(page)) == page


@pytest.mark.parametrize(
    ("check", "ok", "expected"),
    [("new", True, True), ("new", False, False), ("known", False, True), ("known", True, False)],
)
def test_only_a_fault_that_is_listed_is_the_clients_and_only_while_it_lasts(
    check: str, ok: bool, expected: bool
) -> None:
    assert outcome(check, ok).as_expected == expected


def test_a_check_holds_only_with_and_without_the_cache() -> None:
    live = [outcome("a", True), outcome("b", True), outcome("c", False)]
    kept = [outcome("a", True), outcome("b", False), outcome("c", True), outcome("d", False)]
    assert [(one.check, one.ok) for one in together(live, kept)] == [
        ("a", True),
        ("b", False),
        ("c", False),
        ("d", False),
    ]


def test_every_listed_fault_is_a_check_that_there_is() -> None:
    programs = "".join(file.read_text("utf-8") for kind in ("*.py", "*.mjs") for file in HERE.glob(f"*/{kind}"))
    faults = [fault for client in clients([]) for fault in client.faults]
    named = [fault for fault in faults if f'"{fault}"' in programs]
    # The checks of the examples begin with the title of each.
    titled = [fault for fault in faults if f'{{example.title}}: {fault.partition(": ")[2]}"' in programs]
    assert sorted(faults) == sorted(named + titled)
