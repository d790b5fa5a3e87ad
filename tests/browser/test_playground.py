"""The playground in a real browser: a test also fails if the page loads something from elsewhere, breaks its content
security policy or logs an error."""

import asyncio
import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect, take_picture
from tests.browser.page_gateway import PageGateway, delta, end, stream
from tests.scripted_server import Reply

ROOT = Path(__file__).parent.parent.parent

ANSWER = r"""The **quadratic formula** solves $ax^2 + bx + c = 0$:

$$x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$$

```python
def roots(a: float, b: float, c: float) -> tuple[float, float]:
    root = (b * b - 4 * a * c) ** 0.5
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
```

| discriminant | real roots |
|---|---|
| positive | two |
| zero | one |
"""
HOSTILE = """<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">
<iframe srcdoc="<script>parent.hacked = 3</script>"></iframe><style>body { display: none }</style>

[link](javascript:window.hacked=4) <a href="javascript:window.hacked=5" onclick="window.hacked=6">text</a>
![picture](https://outside.invalid/picture.png?secret) ![x](x" onerror="window.hacked=7)

```"><img/src/onerror=window.hacked=8>
code
```

<svg><animate onbegin=window.hacked=9 attributeName=x></svg> $\\href{javascript:window.hacked=10}{x}$ the end
"""
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
)
FORMATS = ("qwen", "openai", "responses", "anthropic", "gemini", "autogen", "agentscope", "agentscope2")
USAGE = {"prompt_tokens": 31, "completion_tokens": 164, "total_tokens": 195, "cost": 0.0021}


def pieces(text: str, name: str, size: int = 9) -> list[bytes]:
    return [delta(**{name: text[at : at + size]}) for at in range(0, len(text), size)]


THOUGHT_PIECES = pieces("The user wants the formula. I will show it, and a function in Python.", "reasoning_content", 5)
ANSWER_PIECES = pieces(ANSWER, "content", 5)


def write_steps(*gates: asyncio.Event) -> list[bytes | asyncio.Event]:
    """Reasoning, content and a call; each goes on when its gate is set."""
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"ci'}}
    rest = {"index": 0, "function": {"arguments": 'ty": "Rome"}'}}
    after_thought, after_text, after_call = gates
    thought: list[bytes | asyncio.Event] = [
        delta(reasoning_content="Thinking"),
        after_thought,
        delta(reasoning_content=" is done."),
    ]
    text: list[bytes | asyncio.Event] = [delta(content="Now"), after_text, delta(content=" I look it up.")]
    call: list[bytes | asyncio.Event] = [delta(tool_calls=[head]), after_call, delta(tool_calls=[rest])]
    return [*thought, *text, *call, end("tool_calls")]


class Gates:
    """What the slow models wait for."""

    def __init__(self) -> None:
        self.after_begin = asyncio.Event()
        self.of_pieces = [asyncio.Event() for _ in range(len(THOUGHT_PIECES) + len(ANSWER_PIECES))]
        self.of_steps = {name: [asyncio.Event() for _ in range(3)] for name in FORMATS}
        """For each format: after the first token of the reasoning, of the content and of the call."""


@pytest.fixture(scope="module")
def gates() -> Gates:
    return Gates()


@pytest.fixture(scope="module")
def gateway(gates: Gates) -> Iterator[PageGateway]:
    written = [*THOUGHT_PIECES, *ANSWER_PIECES]
    paced = [one for pair in zip(gates.of_pieces, written, strict=True) for one in pair]
    models = {
        "professor": stream(*written, end("stop", **USAGE)),
        "qwen3": stream(*paced, end("stop", **USAGE)),
        "hostile": stream(*pieces(HOSTILE, "reasoning_content"), *pieces(HOSTILE, "content"), end("stop")),
        "slow": stream(
            *pieces("The begin. ", "content"), gates.after_begin, *pieces("The rest.", "content"), end("stop")
        ),
        "broken": Reply(chunks=pieces("All is well so far", "content"), chunked=True, abrupt=True),
        "stuck": stream(*pieces("Once upon a time", "content"), asyncio.Event()),
    }
    models |= {f"steps of {name}": stream(*write_steps(*gates.of_steps[name])) for name in FORMATS}
    settings = {
        "demo": True,
        "default_model": "demo",
        "cache": {"url": "memory:"},
        "limits": {"requests_per_minute": 1000},
    }
    with PageGateway(settings, models) as running:
        yield running


def choose_model(page: Any, name: str) -> None:
    page.get_by_label("Model", exact=True).select_option(name)


def ask(page: Any, text: str) -> None:
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def figures(page: Any) -> str:
    return str(page.locator(".details").inner_text())


def test_a_reply_arrives_as_reasoning_and_content_with_code_and_formulas(
    gateway: PageGateway, gates: Gates, open_page: OpenPage
) -> None:
    page = open_page(gateway.url, width=1440, height=900)
    choose_model(page, "qwen3")
    ask(page, "How do I solve a quadratic equation?")
    gateway.set_in_turn(gates.of_pieces[:20])
    reasoning = page.locator(".part.reasoning")
    expect(reasoning).to_contain_text("function in Python")
    expect(page.locator(".part.content .markdown")).to_contain_text("The quad")
    expect(page.locator(".rows")).to_contain_text("in progress")
    gateway.set_in_turn(gates.of_pieces[20:])
    expect(page.locator(".rows")).to_contain_text("complete")
    reasoning.locator("summary").click()
    expect(reasoning.get_by_text("The user wants")).not_to_be_visible()
    reasoning.locator("summary").click()
    content = page.locator(".part.content .markdown")
    expect(content.locator("strong")).to_have_text("quadratic formula")
    expect(content.locator("math mfrac")).to_have_count(1)
    expect(content.locator("pre .hljs-keyword").first).to_have_text("def")
    expect(content.locator("table th")).to_have_count(2)
    text = figures(page)
    assert re.search(r"First token\s+[\d,]+ ms", text)
    assert "Input tokens\n31" in text and "Output tokens\n164" in text and "Cost\n0.0021" in text
    assert "no stored reply: the model was called" in text and "Gaps between tokens" in text
    check_accessible(page)
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement.blur()")
    take_picture(page, "chat")


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "gemini"])  # its calls come whole
def test_each_message_of_a_reply_is_an_article_of_its_own_from_its_first_token(
    gateway: PageGateway, gates: Gates, open_page: OpenPage, format_: str
) -> None:
    page = open_page(gateway.url)
    choose_model(page, f"steps of {format_}")
    page.get_by_label("Format").select_option(format_)
    ask(page, "What is the weather in Rome?")
    articles = page.locator(".live > article")
    shown = ["Thinking", "Now", "get_weather"]
    for count, (text, gate) in enumerate(zip(shown, gates.of_steps[format_], strict=True), 1):
        if format_ == "autogen" and text == "get_weather":  # its events have whole calls only
            gateway.set(gate)
            break
        expect(articles, text).to_have_count(count)
        expect(articles.last).to_contain_text(text)
        if format_ == "qwen" and count == 3:
            check_accessible(page)
            take_picture(page, "streaming")
        gateway.set(gate)
    expect(page.locator(".part.call")).to_contain_text('"city": "Rome"')
    expect(page.get_by_role("button", name="Send the results")).to_be_visible()


def test_the_page_names_the_source_of_a_reply_and_can_request_a_new_one(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    choose_model(page, "professor")
    for mode, why in (
        ("refresh", "a new reply, as asked"),
        ("on", "a stored reply"),
        ("off", "the cache was not used"),
    ):
        page.get_by_label("Cache").select_option(mode)
        ask(page, "Is it cached?")
        expect(page.locator(".details")).to_contain_text(why)
        expect(page.locator(".rows")).to_contain_text("complete")
        page.get_by_role("button", name="Clear").first.click()


def test_a_function_is_called_and_its_result_is_answered_in_each_format(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url, colour="dark")
    choose_model(page, "demo")
    page.locator("aside.options").get_by_role("button", name="Example").click()
    for format_ in FORMATS:
        page.get_by_label("Format").select_option(format_)
        ask(page, "What is the weather in Rome?")
        call = page.locator(".part.call").last
        expect(call, format_).to_contain_text('"city": "Rome"')
        if format_ == "openai":
            check_accessible(page)
        page.get_by_label("Result of get_weather").last.fill(f'{{"sky": "{format_}"}}')
        page.get_by_role("button", name="Send the results").click()
        expect(page.locator(".part.content").last, format_).to_contain_text(
            f'The function get_weather returned: {{"sky": "{format_}"}}'
        )
        expect(page.locator(".composer button.primary")).to_be_enabled()
        page.get_by_role("button", name="Clear").last.click()


def test_a_reply_that_breaks_off_fails_in_each_format_and_can_be_tried_again(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    for format_ in FORMATS:
        page.get_by_label("Format").select_option(format_)
        choose_model(page, "broken")
        ask(page, "Will it break?")
        failure = page.locator(".live .problem")
        expect(failure, format_).to_contain_text("connection")
        expect(page.locator(".live .part.content"), format_).to_have_text("All is well so far")
        choose_model(page, "demo")
        failure.get_by_role("button", name="Try again").click()
        expect(page.locator(".part.content").last, format_).to_contain_text("You asked: “Will it break?”")
        page.get_by_role("button", name="Clear").last.click()


def test_the_messages_that_the_page_writes_are_valid_in_each_format(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    found = page.evaluate(
        """async () => {
          const { FORMATS, writeUser } = await import("./playground/formats/index.js");
          const files = [
            { name: "a.png", mediaType: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" },
            { name: "b.pdf", mediaType: "application/pdf", url: "data:application/pdf;base64,JVBERi0xLjQK" },
          ];
          const rows = [];
          for (const name of Object.keys(FORMATS)) {
            const { format, message } = writeUser(name, "What is this?", files);
            const messages = [FORMATS[format].writeSystem("Be brief."), message];
            const request = JSON.stringify({ from: format, to: "openai", messages });
            const headers = { "content-type": "application/json" };
            const response = await fetch("v1/convert", { method: "POST", headers, body: request });
            const body = await response.json();
            const kinds = body.messages?.[1].content.map((part) => part.type).sort();
            rows.push([name, body.messages?.[0].role, kinds, body.error?.message ?? ""]);
          }
          return rows;
        }"""
    )
    assert [row[0] for row in found] == list(FORMATS)
    assert [row for row in found if row[1:] != ["system", ["file", "image_url", "text"], ""]] == []


def test_every_format_has_an_example_that_every_other_format_can_read(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    outcome = page.evaluate(
        """async () => {
          const { FORMATS } = await import("./playground/formats/index.js");
          const { describe } = await import("./playground/formats/describe.js");
          const found = [];
          for (const [from, { example: messages }] of Object.entries(FORMATS)) {
            const headers = { "content-type": "application/json" };
            const request = JSON.stringify({ from: "auto", to: "qwen", messages });
            const response = await fetch("v1/convert", { method: "POST", headers, body: request });
            const body = await response.json();
            const kinds = messages.flatMap((message) => describe(message).parts.map((part) => part.kind));
            found.push([from, response.status, body.messages?.length >= 7, body.warnings, kinds.includes("other"),
              kinds.filter((kind) => kind === "call" || kind === "result").join()]);
          }
          return [Object.keys(FORMATS).sort(), found];
        }"""
    )
    names, found = outcome
    assert names == sorted(row[0] for row in found)
    assert [row for row in found if row[1:] != [200, True, [], False, "call,result"]] == []


def test_a_pdf_keeps_its_name_in_each_format(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "demo")
    for format_, following in zip(FORMATS, (*FORMATS[1:], FORMATS[0]), strict=True):
        page.get_by_label("Format").select_option(format_)
        page.get_by_role("button", name="A PDF").click()
        expect(page.locator(".message.user"), format_).to_contain_text("meeting.pdf")
        expect(page.locator(".rows")).to_contain_text("complete")
        page.get_by_label("Format").select_option(following)
        expect(page.locator(".message.assistant").last).to_contain_text("You asked:")
        expect(page.locator(".message.user"), f"{format_} as {following}").to_contain_text("meeting.pdf")
        page.get_by_role("button", name="Clear").last.click()


def test_a_conversation_that_is_cleared_while_it_is_converted_stays_empty(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    choose_model(page, "demo")
    ask(page, "Hello")
    expect(page.locator(".rows")).to_contain_text("complete")
    held: list[Any] = []
    page.route("**/v1/convert", lambda route: held.append(route))
    with page.expect_request("**/v1/convert"):
        page.get_by_label("Format").select_option("openai")
    page.get_by_role("button", name="Clear").last.click()
    expect(page.locator(".message")).to_have_count(0)
    with page.expect_response("**/v1/convert"):
        held[0].continue_()
    expect(page.get_by_label("Format")).to_have_value("openai")
    expect(page.locator(".message")).to_have_count(0)


def test_an_image_and_a_pdf_are_sent(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "demo")
    files = [
        {"name": "picture.png", "mimeType": "image/png", "buffer": PICTURE},
        {"name": "paper.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4\n%EOF\n"},
    ]
    page.locator("#files").set_input_files(files[:1])
    expect(page.locator(".attachments li")).to_have_count(1)
    ask(page, "What is this?")
    expect(page.locator(".part.content").last).to_contain_text(
        "I see 1 attachment(s), known to me only by media type: image/png"
    )
    expect(page.locator(".message.user img.media")).to_have_count(1)
    expect(page.locator(".live")).to_have_count(0)
    page.get_by_role("button", name="Clear").last.click()
    page.get_by_label("Format").select_option("autogen")
    page.locator("#files").set_input_files(files)
    page.get_by_role("button", name="Remove picture.png").click()
    ask(page, "Sum it up.")
    expect(page.locator(".message.user")).to_contain_text("paper.pdf")


def test_a_file_of_another_kind_is_named_and_not_attached(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    files = [
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"a"},
        {"name": "picture.png", "mimeType": "image/png", "buffer": PICTURE},
        {"name": "unknown", "mimeType": "", "buffer": b"a"},
    ]
    page.locator("#files").set_input_files(files)
    expect(page.locator(".attachments li")).to_have_count(1)
    expect(page.locator(".attachments li")).to_contain_text("picture.png")
    expect(page.locator(".problem")).to_contain_text("can be attached, not notes.txt, unknown.")


def test_a_cut_connection_is_resumed(gateway: PageGateway, gates: Gates, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "slow")
    ask(page, "Go slowly")
    expect(page.locator(".part.content").last).to_contain_text("The begin.")
    page.get_by_role("button", name="Cut the connection").click()
    expect(page.locator(".live")).to_contain_text("The connection was lost after")
    gateway.set(gates.after_begin)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".rows")).to_contain_text("complete")
    expect(page.locator(".part.content").last).to_have_text("The begin. The rest.")
    assert "Resumed\n1" in figures(page)


def test_a_reply_is_stopped_and_requested_again(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "stuck")
    ask(page, "Tell me a story")
    expect(page.locator(".part.content").last).to_contain_text("Once upon a time")
    page.keyboard.press("Escape")
    expect(page.locator(".rows")).to_contain_text("stopped")
    expect(page.locator(".message.assistant .part.content")).to_have_text("Once upon a time")
    choose_model(page, "demo")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".part.content").last).to_contain_text("You asked: “Tell me a story”")
    expect(page.locator(".message.user")).to_have_count(1)


def test_a_mistake_is_shown_at_the_message_that_has_it(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "demo")
    page.get_by_role("button", name="Edit as JSON").click()
    editor = page.get_by_label("Messages in the format of Qwen-Agent")
    editor.fill('[\n  {"role": "user", "content": "Hi"},\n  {"role": "bear", "content": "Roar"}\n]')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".backdrop mark")).to_have_text('"role": "bear"')
    place = page.get_by_role("button", name="Line 3, column 4: messages[1].role: must be one of system")
    place.click()
    assert editor.evaluate("one => one.value.slice(one.selectionStart, one.selectionEnd)") == '"role": "bear"'
    check_accessible(page)
    editor.evaluate("one => one.blur()")
    take_picture(page, "mistake")
    page.get_by_role("button", name="Save with the mistakes").click()
    expect(page.get_by_role("article", name="Message 2")).to_contain_text('Unknown role "bear"')
    ask(page, "And you?")
    expect(page.locator(".message.mistaken")).to_have_count(1)
    expect(page.get_by_role("article", name="Message 2")).to_contain_text("messages[1].role: must be one of system")
    check_accessible(page)
    page.get_by_role("button", name="Edit message 2").click()
    expect(page.locator(".backdrop mark")).to_have_text('"role": "bear"')
    page.get_by_label("Message 2 as JSON").fill('{"role": "assistant", "content": "Hello!"}')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".message.mistaken")).to_have_count(0)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".part.content").last).to_contain_text("You asked: “And you?”")


def test_what_a_model_writes_is_never_run_and_loads_nothing(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "hostile")
    ask(page, "Attack")
    expect(page.locator(".rows")).to_contain_text("complete")
    content = page.locator(".part.content .markdown")
    expect(content).to_contain_text("<script>window.hacked = 1</script>")
    expect(content).to_contain_text("the end")
    assert page.evaluate("window.hacked") is None
    assert page.locator(".markdown").locator("script, iframe, style, object, svg, form, img").count() == 0
    handlers = """all => all.flatMap((one) => [...one.attributes])
      .filter(({ name, value }) => name.startsWith("on") || /^\\s*javascript:/i.test(value)).map((one) => one.name)"""
    assert page.locator(".markdown *").evaluate_all(handlers) == []
    links = content.locator("a")
    assert {links.nth(at).get_attribute("rel") for at in range(links.count())} == {"noopener noreferrer nofollow"}


def test_frames_and_the_request_as_code_can_be_copied(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    ask(page, "It's a 'quoted' question")
    expect(page.locator(".rows")).to_contain_text("complete")
    page.get_by_role("tab", name="Frames").click()
    expect(page.locator(".frames li").first).to_contain_text("event: response.started")
    page.get_by_role("tab", name="Code").click()
    page.locator(".details").get_by_role("button", name="Copy").click()
    expect(page.locator(".details").get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl -N '{gateway.url}/v1/chat'") and "It's a 'quoted' question" in copied
    page.locator(".details").get_by_label("Language").select_option("python")
    expect(page.locator(".details pre")).to_contain_text("import httpx")


def test_a_page_without_https_copies_too_and_says_if_it_cannot(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, "#convert")
    page.evaluate("navigator.clipboard.writeText('before')")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_focused()
    page.evaluate("() => { delete navigator.clipboard; }")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("[") and "function_call" in copied
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate("() => { document.execCommand = () => false; }")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Not copied: select the text")).to_be_visible()


def test_a_conversation_is_converted_side_by_side(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, "#convert")
    output = page.get_by_role("region", name="Converted messages")
    expect(output).to_contain_text('"function_call"')
    page.get_by_role("combobox", name="To").select_option("autogen")
    expect(output).to_contain_text("ToolCallRequestEvent")
    check_accessible(page)
    page.get_by_label("Messages", exact=True).fill('[{"role": "user", "content": 5}]')
    expect(page.locator(".marks")).to_contain_text("Line 1, column 19: messages[0].content")
    expect(page.locator(".backdrop mark")).to_have_text('"content": 5')
    page.get_by_label("Messages", exact=True).fill('[{"role": "user", "content": "Hi"}]')
    page.get_by_role("button", name="Use in the chat").click()
    expect(page.locator(".message.user")).to_contain_text("Hi")
    expect(page.get_by_label("Format")).to_have_value("autogen")


def test_the_status_shows_servers_limits_and_the_last_requests(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose_model(page, "demo")
    ask(page, "A question that no other test asks: its reply is not in the cache")
    expect(page.locator(".rows")).to_contain_text("complete")
    page.get_by_role("link", name="Status").click()
    expect(page.get_by_role("heading", name="Model servers")).to_be_visible()
    expect(page.get_by_role("region", name="Model servers")).to_contain_text("available")
    expect(page.get_by_role("region", name="Limits")).to_contain_text("requests per minute")
    expect(page.get_by_role("region", name="Last requests").locator("tbody tr").first).to_contain_text("demo: ok")
    check_accessible(page)


FOO = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
"""The SHA-256 of the key "foo"."""
WITH_KEY = {"demo": True, "cache": {"url": "memory:"}, "keys": {"me": {"sha256": FOO}}}


def test_the_page_requests_a_key_and_keeps_it_for_the_tab_alone(open_page: OpenPage) -> None:
    with PageGateway(WITH_KEY) as gateway:
        page = open_page(gateway.url)
        field = page.get_by_label("API key")
        field.fill("wrong")
        field.press("Enter")
        expect(page.get_by_text("The gateway refused this key.")).to_be_visible()
        field.fill("sk-1234…")
        field.press("Enter")
        expect(page.get_by_text("This is not a whole key")).to_be_visible()
        expect(field).to_have_attribute("aria-invalid", "true")
        field.fill("foo")
        field.press("Enter")
        expect(field).to_have_count(0)
        ask(page, "Hello")
        expect(page.locator(".rows")).to_contain_text("complete")
        assert page.evaluate("[sessionStorage, localStorage].map((one) => Object.values(one).includes('foo'))") == [
            True,
            False,
        ]
        expect(page.get_by_role("link", name="Status")).to_have_count(0)
        page.evaluate("() => { location.hash = 'status'; }")
        expect(page.get_by_role("alert")).to_contain_text("admin")


def test_the_page_asks_for_another_key_when_the_present_one_expires(open_page: OpenPage) -> None:
    with PageGateway(WITH_KEY) as gateway:
        page = open_page(gateway.url)
        field = page.get_by_label("API key")
        field.fill("foo")
        field.press("Enter")
        expect(field).to_have_count(0)
        expired = {"error": {"code": "invalid_api_key", "message": "the key has expired"}}
        page.route("**/v1/**", lambda route: route.fulfill(status=401, json=expired))
        ask(page, "Hello")
        expect(page.locator(".problem").last).to_contain_text("the key has expired")
        expect(page.get_by_text("The gateway refused this key.")).to_be_visible()
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator(".rows")).to_contain_text("complete")
        expect(field).to_have_count(0)


def test_the_late_answer_for_an_earlier_key_is_ignored(open_page: OpenPage) -> None:
    with PageGateway(WITH_KEY) as gateway:
        page = open_page(gateway.url)
        held: list[Any] = []

        def hold_wrong_key(route: Any) -> None:
            if route.request.headers.get("authorization") == "Bearer wrong":
                held.append(route)
            else:
                route.continue_()

        page.route("**/v1/models", hold_wrong_key)
        field = page.get_by_label("API key")
        for key in ("wrong", "foo"):
            field.fill(key)
            field.press("Enter")
        expect(field).to_have_count(0)
        with page.expect_response("**/v1/models") as answer:
            held[0].continue_()
        assert answer.value.status == 401
        ask(page, "Hello")
        expect(page.locator(".rows")).to_contain_text("complete")
        expect(field).to_have_count(0)


def test_it_is_in_chinese_dark_and_narrow(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, width=390, height=844, locale="zh-CN", colour="dark")
    expect(page.get_by_role("link", name="对话")).to_have_attribute("aria-current", "page")
    page.get_by_text("请求", exact=False).first.click()
    page.get_by_label("模型").first.select_option("professor")
    page.locator("details.panel > summary").click()
    ask(page, "一元二次方程怎么解？")
    expect(page.locator(".rows")).to_contain_text("已完成")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    check_accessible(page)
    page.locator(".message.assistant").first.scroll_into_view_if_needed()
    take_picture(page, "narrow")
    for name in ("转换", "状态", "连接"):
        page.get_by_role("link", name=name).first.click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        check_accessible(page)
    page.get_by_label("语言").select_option("en")
    expect(page.get_by_role("link", name="Chat")).to_be_visible()


def test_the_keyboard_alone_sends_a_message_and_moves_between_tabs(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "prompt":
            break
    page.keyboard.type("Hello")
    page.keyboard.press("Enter")
    expect(page.locator(".rows")).to_contain_text("complete")
    page.get_by_role("tab", name="Figures").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Frames")).to_have_attribute("aria-selected", "true")
