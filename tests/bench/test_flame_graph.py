"""The flame graph of sampled stacks."""

from xml.etree import ElementTree

from flame_graph import LEAST_WIDTH, WIDTH, build, draw
from stacks import Stack

STACKS = [Stack(["run", "feed <a & b>"], 6), Stack(["run", "feed <a & b>", "write"], 3), Stack(["other"], 1)]
SVG = "{http://www.w3.org/2000/svg}"


def test_a_function_has_the_samples_of_all_that_it_called() -> None:
    root = build(STACKS)
    run = root.called["run"]
    assert (root.samples, run.samples, run.called["feed <a & b>"].samples) == (10, 9, 9)
    assert run.called["feed <a & b>"].called["write"].samples == 3


def test_a_box_is_as_wide_as_its_share_and_says_it() -> None:
    picture = ElementTree.fromstring(draw(build(STACKS), "64 clients <at once>"))
    boxes = {
        str(group.findtext(f"{SVG}title")): float(rect.get("width", ""))
        for group in picture.iter(f"{SVG}g")
        if (rect := group.find(f"{SVG}rect")) is not None
    }
    assert list(boxes) == ["all: 100.0%", "other: 10.0%", "run: 90.0%", "feed <a & b>: 90.0%", "write: 30.0%"]
    assert abs(boxes["write: 30.0%"] / boxes["all: 100.0%"] - 0.3) < 0.001


def test_what_is_too_narrow_to_be_seen_is_left_out() -> None:
    seldom = int(2 * WIDTH / LEAST_WIDTH)
    assert "seldom" not in draw(build([Stack(["often"], seldom), Stack(["seldom"], 1)]), "a title")
