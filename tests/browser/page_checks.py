"""What tests say of a page. Playwright is imported only when they run: it is not installed everywhere."""

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from PIL import Image

IMAGES = os.environ.get("PLAYGROUND_IMAGES")
"""With a folder here, the tests write the pictures of the documentation."""

OpenPage: TypeAlias = Callable[..., Any]
"""The fixture `open_page`."""

_TOUCHING = """() => {
  const shownIn = document.querySelector("dialog[open]") ?? document;
  const buttons = [...shownIn.querySelectorAll("button, a, select, summary, input:not([type=file])")];
  const shown = buttons.filter((one) => one.checkVisibility() && !one.closest(".visually-hidden, .skip"));
  const sticky = (one) => Boolean(one.closest(".top, .composer, .answers"));
  const boxes = shown.map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => box.width > 1);
  const found = [];
  for (const [at, [one, a]] of boxes.entries()) {
    for (const [other, b] of boxes.slice(at + 1)) {
      if (one.contains(other) || other.contains(one) || sticky(one) !== sticky(other)) continue;
      const across = Math.max(a.left - b.right, b.left - a.right);
      const down = Math.max(a.top - b.bottom, b.top - a.bottom);
      if (Math.max(across, down) < 4) found.push([one.textContent, other.textContent, across, down]);
    }
  }
  return found;
}"""
_CUT_OFF = """() => [...document.querySelectorAll("main *")]
  .filter((one) => one.checkVisibility() && !one.closest("pre, textarea, thead, .visually-hidden, svg, select"))
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible")
  .map((one) => one.outerHTML.slice(0, 120))"""


def expect(locator: Any, message: str | None = None) -> Any:
    """Return Playwright's assertions of a locator, which wait until they hold."""
    from playwright import sync_api

    return sync_api.expect(locator, message)


def check_accessible(page: Any) -> None:
    """No violation of WCAG 2.2 A and AA that axe can find."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    page.evaluate("scrollTo(0, 0)")  # what the sticky header covers would count as too small
    found = axe.Axe().run(page, options={"runOnly": {"type": "tag", "values": tags}, "resultTypes": ["violations"]})
    violations = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found.response["violations"]]
    assert violations == [], violations


def check_layout(page: Any, name: str) -> None:
    """Nothing touches, nothing is cut off, and nothing is wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    assert page.evaluate(_TOUCHING) == [], name
    assert page.evaluate(_CUT_OFF) == [], name


def take_picture(page: Any, name: str) -> None:
    """Write an image of the documentation if PLAYGROUND_IMAGES names a folder."""
    if IMAGES is not None:
        _write_image(page, Path(IMAGES) / f"playground-{name}.png")


def take_layout(page: Any, name: str) -> None:
    """Write an image to look at if the folder that PLAYGROUND_IMAGES names has a folder `layout`."""
    if IMAGES is not None and (folder := Path(IMAGES) / "layout").is_dir():
        _write_image(page, folder / f"{name}.png")


def _write_image(page: Any, path: Path) -> None:
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(192, dither=Image.Dither.NONE).save(path, optimize=True)
