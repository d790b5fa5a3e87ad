"""The pages for keys, teams and spending."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access import hash_key
from app.state import open_database
from app.state.urls import FileUrl, parse_state_url
from app.usage.store import UsageStore
from app.usage.totals import RowKey, Totals, UsageRow

from tests.browser.page_checks import OpenPage, check_accessible, check_layout, expect, take_layout, take_picture
from tests.browser.page_gateway import PageGateway, delta, end, stream

ADMIN, HOSTILE = "key-of-the-administrator", "<img src=x onerror=window.hacked=1>"


def fill(url: str) -> None:
    """Store the usage of the last weeks."""
    address = parse_state_url(url)
    assert isinstance(address, FileUrl)
    store = UsageStore(open_database(address))
    today, rows = datetime.now(UTC).date(), []
    for ago in range(1, 30):
        requests = 40 + 25 * (ago * 7 % 5) - 30 * (ago % 7 == 3)
        totals = Totals(
            requests=requests, input_tokens=1000 * requests, output_tokens=100 * requests, cost=0.003 * requests
        )
        rows.append(UsageRow(RowKey(str(today - timedelta(days=ago)), "of-the-file", "qwen3", "search"), totals))
    store.add(rows)
    store.close()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageGateway]:
    models = {"qwen3": stream(delta(content="Hello."), end("stop", prompt_tokens=1000, completion_tokens=100))}
    url = f"sqlite:///{tmp_path_factory.mktemp('state')}/state.db"
    fill(url)
    settings: dict[str, Any] = {
        "server": {"admin_key": ADMIN},
        "state": {"url": url},
        "models": {"qwen3": {"price": {"input": 2.0, "output": 10.0}}},
        "teams": {"search": {"limits": {"spend_per_month": 50}}, "research": {"models": ["qwen*"]}},
        "keys": {
            "of-the-file": {"sha256": hash_key("of-the-file"), "team": "search", "expires": "2099-01-01"},
            "old": {"sha256": hash_key("old"), "expires": "2020-01-01"},
        },
    }
    with PageGateway(settings, models) as running:
        yield running


def chat(gateway: PageGateway, key: str) -> int:
    body = {"model": "qwen3", "messages": [{"role": "user", "content": "Hi"}], "stream": False}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}/v1/chat", json=body, headers=headers, trust_env=False).status_code


def open_admin(gateway: PageGateway, open_page: OpenPage, path: str, **more: Any) -> Any:
    """The page, after an administrator has entered a key."""
    page = open_page(gateway.url, path, **more)
    page.locator("#api-key").fill(ADMIN)
    page.locator("#api-key").press("Enter")
    expect(page.locator(".problem")).to_have_count(0)
    return page


def row_of(page: Any, name: str) -> Any:
    return page.locator("section.table tbody tr").filter(has=page.get_by_text(name, exact=True))


def create(page: Any, name: str, **texts: str) -> str:
    """Create a key in the form, and return it."""
    page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog", name="Create a key")
    for label, text in {"Name": name, **texts}.items():
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_label("Team").select_option("search")
    dialog.get_by_role("button", name="Create a key").click()
    expect(dialog).to_have_count(0)
    return str(page.locator(".secret code").text_content())


def test_a_key_is_created_changed_rotated_and_revoked(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_admin(gateway, open_page, "#keys")
    first = create(page, "alice", Note=HOSTILE, Models="qwen*, gpt-4o", **{"requests per minute": "60"})
    assert chat(gateway, first) == 200
    page.locator(".secret").get_by_role("button", name="Copy").click()
    expect(page.locator(".secret").get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == first
    page.locator(".secret").get_by_role("button", name="Close").click()
    expect(page.locator("body")).not_to_contain_text(first)
    row = row_of(page, "alice")
    for text in ("active", "search", "qwen*", "requests per minute: 60", HOSTILE):
        expect(row).to_contain_text(text)
    assert page.evaluate("window.hacked") is None

    row.get_by_role("button", name="Change the key alice").click()
    dialog = page.get_by_role("dialog", name="Change the key alice")
    expect(dialog.get_by_label("Note")).to_have_value(HOSTILE)
    dialog.get_by_label("requests per minute").fill("")
    dialog.get_by_label("Expires").fill("2020-01-01")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_label("Expires")).to_have_attribute("aria-invalid", "true")
    check_accessible(page)
    dialog.get_by_label("Expires").fill("2099-06-01")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("1 Jun 2099")
    expect(row).not_to_contain_text("requests per minute")

    row.get_by_role("button", name="Rotate the key alice").click()
    page.get_by_role("dialog").get_by_label("The key before is accepted for").select_option("an hour")
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    second = str(page.locator(".secret code").text_content())
    expect(row).to_contain_text("the key before until")
    assert second != first and [chat(gateway, key) for key in (first, second)] == [200, 200]

    row.get_by_role("button", name="Revoke the key alice").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert chat(gateway, second) == 200
    row.get_by_role("button", name="Revoke the key alice").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert [chat(gateway, key) for key in (first, second)] == [401, 401]
    page.get_by_label("Show revoked keys").check()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)


def test_keys_of_the_file_are_shown_and_cannot_be_changed(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_admin(gateway, open_page, "#keys")
    for name, state in (("of-the-file", "active"), ("old", "expired")):
        expect(row_of(page, name)).to_contain_text(state)
        expect(row_of(page, name)).to_contain_text("from the configuration")
        expect(row_of(page, name).get_by_role("button")).to_have_count(0)


def test_a_mistake_in_a_new_key_is_shown_at_its_field_and_escape_leaves_the_form(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_admin(gateway, open_page, "#keys")
    page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("old")
    dialog.get_by_role("button", name="Create a key").click()
    expect(dialog.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(dialog).to_contain_text("there is a key 'old' in the configuration")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Create a key")).to_be_focused()


def test_a_team_has_its_keys_and_what_it_has_spent_of_its_limit(gateway: PageGateway, open_page: OpenPage) -> None:
    assert chat(gateway, "of-the-file") == 200
    page = open_admin(gateway, open_page, "#teams")
    row = row_of(page, "search")
    expect(row).to_contain_text("of-the-file")
    expect(row).to_contain_text("/ 50 spending per month")
    used = row.get_by_role("meter")
    page.get_by_role("button", name="Reload").click()
    expect(used).not_to_have_attribute("value", "0")
    expect(row_of(page, "research")).to_contain_text("qwen*")
    check_accessible(page)


def test_spending_is_plotted_and_listed_by_day_key_team_and_model(gateway: PageGateway, open_page: OpenPage) -> None:
    assert chat(gateway, "of-the-file") == 200
    page = open_admin(gateway, open_page, "#spending")
    expect(page.get_by_role("img", name="Cost, by day: highest")).to_be_visible()
    expect(page.locator(".plot rect")).to_have_count(30)
    for group, name in (("by key", "of-the-file"), ("by team", "search"), ("by model", "qwen3")):
        page.get_by_label("Group by").select_option(group)
        expect(page.locator(".bars .name").first).to_have_text(name)
        expect(page.get_by_role("region", name="Totals").locator("tbody")).to_contain_text(name)
    page.get_by_role("button", name="qwen3", exact=True).click()
    page.get_by_label("Group by").select_option("by team")
    page.get_by_role("button", name="search", exact=True).click()
    expect(page.get_by_role("img", name="Cost, by day")).to_be_visible()
    page.get_by_label("Group by").select_option("by key")
    page.get_by_role("button", name="Team: search").click()
    page.get_by_role("button", name="Model: qwen3").click()
    expect(page.get_by_role("button", name="Model: qwen3")).to_have_count(0)
    page.get_by_label("Group by").select_option("by model")
    page.get_by_label("Plot").select_option("Input tokens")
    expect(page.get_by_role("img", name="Input tokens, by model")).to_be_visible()
    page.get_by_label("To", exact=True).fill("2020-01-31")
    expect(page.locator(".problem")).to_contain_text("must not be after")
    page.get_by_label("From", exact=True).fill("2020-01-01")
    expect(page.get_by_text("No requests in these days.")).to_be_visible()
    check_accessible(page)


def test_spending_is_downloaded_as_csv(gateway: PageGateway, open_page: OpenPage) -> None:
    assert chat(gateway, "of-the-file") == 200
    page = open_admin(gateway, open_page, "#spending")
    page.get_by_label("Group by").select_option("by team")
    expect(page.locator(".bars .name").first).to_have_text("search")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    name, path = waiting.value.suggested_filename, waiting.value.path()
    assert name.startswith("usage-20") and name.endswith(".csv")
    assert Path(path).read_text("utf-8").startswith("team,requests,errors,")


def test_a_key_that_is_no_administrators_sees_its_own_spending_alone(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.locator("#api-key").fill("of-the-file")
    page.locator("#api-key").press("Enter")
    expect(page.get_by_role("link", name="Keys")).to_have_count(0)
    for view in ("keys", "teams"):
        page.evaluate("view => { location.hash = view; }", view)
        expect(page.get_by_role("alert")).to_contain_text("Enter an administrator's API key at the top of the page")
    page.get_by_role("link", name="Spending").click()
    page.get_by_label("Group by").select_option("by key")
    expect(page.get_by_role("region", name="Totals").locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 860)])
@pytest.mark.parametrize(("language", "colour"), [("en-GB", "light"), ("zh-CN", "dark")])
def test_the_pages_fit_the_screen_in_both_languages_and_themes(
    gateway: PageGateway, open_page: OpenPage, width: int, height: int, language: str, colour: str
) -> None:
    assert chat(gateway, "of-the-file") == 200
    page = open_admin(gateway, open_page, "#keys", width=width, height=height, locale=language, colour=colour)
    for view in ("keys", "teams", "spending"):
        page.evaluate("view => { location.hash = view; }", view)
        page.locator(f"main.{view}").wait_for()
        expect(page.locator("section.table tbody tr").first).to_be_visible()
        check_layout(page, view)
        lines = "all => all.map((one) => one.getClientRects().length)"
        assert {*page.locator("td .day").evaluate_all(lines)} == ({1} if view == "spending" else set())
        check_accessible(page)
        take_layout(page, f"{view}-{width}-{language[:2]}")
    if (width, language) == (1280, "en-GB"):
        take_picture(page, "spending")
    page.evaluate("() => { location.hash = 'keys'; }")
    page.locator("main.keys button.primary").click()
    expect(page.locator("dialog")).to_be_visible()
    check_layout(page, "the form")
    check_accessible(page)
