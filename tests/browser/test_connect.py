"""The view that connects a model server: it writes lines only for a server that has answered."""

import shutil
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect, take_picture
from tests.browser.page_gateway import PageGateway, delta, end, stream


@pytest.fixture(scope="module")
def server() -> Iterator[PageGateway]:
    """The model server: another gateway, with two models."""
    reply = stream(delta(content="Hello"), end("stop"))
    with PageGateway({"cache": {"url": "null:"}}, {"professor": reply, "pupil": reply}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    """One that has no configuration."""
    with PageGateway({"demo": True, "cache": {"url": "memory:"}}) as running:
        yield running


def open_connect(open_page: OpenPage, gateway: PageGateway, url: str, **options: Any) -> Any:
    page = open_page(gateway.url, "#connect", **options)
    page.locator("input[type=url]").fill(url)
    page.locator("form button[type=submit]").first.click()
    return page


def test_a_server_is_tested_and_its_lines_are_written(
    server: PageGateway, gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    expect(page.locator(".first-run")).to_contain_text("built-in demo model")
    check_accessible(page)
    page.get_by_role("link", name="Connect your model server").click()
    section = page.get_by_role("region", name="Configure")
    expect(section).to_contain_text("The lines appear here when the server has answered the test.")
    page.get_by_label("Base URL").fill(f"{server.url}/v1")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("status").filter(has_text="The server answers.")).to_contain_text("professor, pupil")
    page.get_by_label("Model of the server").select_option("professor")
    page.get_by_label("Name for callers").fill("maths")
    lines = page.get_by_role("region", name="parley.toml")
    expect(lines).to_contain_text("[models.maths]")  # the page is drawn after the field has changed
    assert tomllib.loads(lines.inner_text()) == {
        "default_model": "maths",
        "upstreams": {"local": {"base_url": f"{server.url}/v1"}},
        "models": {"maths": {"upstreams": ["local"], "name": "professor"}},
    }
    expect(page.get_by_role("region", name="Or without a file")).to_have_text(
        f"PARLEY_UPSTREAM_URL='{server.url}/v1' parley serve"
    )
    check_accessible(page)
    take_picture(page, "connect")
    page.get_by_label("Base URL").fill("http://127.0.0.1:1/v1")
    expect(section.locator("pre")).to_have_count(0)


def test_a_server_that_does_not_answer_gets_no_lines(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_connect(open_page, gateway, "http://127.0.0.1:1/v1", locale="zh-CN", colour="dark")
    expect(page.locator(".problem")).to_contain_text("该地址没有模型服务器响应。")
    expect(page.locator("main pre")).to_have_count(0)
    expect(page.get_by_label("配置中的服务器名称")).to_have_count(0)
    check_accessible(page)


def test_another_address_that_works_is_taken_and_tested(
    server: PageGateway, gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_connect(open_page, gateway, server.url)
    expect(page.locator(".problem")).to_contain_text("The server answers under another address.")
    expect(page.locator("main pre")).to_have_count(0)
    page.get_by_role("button", name=f"Use {server.url}/v1").click()
    expect(page.locator(".success")).to_contain_text("The server answers.")
    expect(page.get_by_role("region", name="parley.toml")).to_contain_text(f'base_url = "{server.url}/v1"')


class NothingThere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_what_answers_without_a_list_of_models_needs_the_name_of_one(gateway: PageGateway, open_page: OpenPage) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), NothingThere) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page = open_connect(open_page, gateway, f"http://127.0.0.1:{other.server_port}/v1")
        expect(page.locator(".problem")).to_contain_text("not with a list of models")
        expect(page.locator("main pre")).to_have_count(0)
        page.get_by_label("Model of the server").fill("mine")
        expect(page.get_by_role("region", name="parley.toml")).to_contain_text('default_model = "mine"')
        other.shutdown()


ADDRESS = "http://h/it's $(touch x)`y`/v1"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("has_key", [False, True])
def test_the_command_can_be_typed_as_it_is(gateway: PageGateway, open_page: OpenPage, has_key: bool) -> None:
    page = open_page(gateway.url)
    command = page.evaluate(
        """async ([baseUrl, hasKey, command]) => {
          const { writeShell } = await import("./playground/toml.js");
          return writeShell({ name: "local", baseUrl, kind: "vllm", hasKey, model: "", alias: "" }, command);
        }""",
        [ADDRESS, has_key, "env"],
    )
    # `env serve` would run a program: the variables are printed instead.
    typed = command.removesuffix("env serve") + "env\n"
    ran = subprocess.run(
        ["bash", "-c", typed], input="s3cret\n", capture_output=True, text=True, check=True, timeout=20
    )
    found = dict(line.split("=", 1) for line in ran.stdout.splitlines() if line.startswith("PARLEY_"))
    assert found == {"PARLEY_UPSTREAM_URL": ADDRESS, "PARLEY_UPSTREAM_KIND": "vllm"} | (
        {"PARLEY_UPSTREAM_API_KEY": "s3cret"} if has_key else {}
    )
