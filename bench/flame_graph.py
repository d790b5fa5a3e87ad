"""A flame graph from sampled stacks: which function called which, and how much of the time passed in each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from stacks import Stack

WIDTH, ROW, MARGIN, HEAD = 1200, 17, 8, 32
"""In pixels: of the image, of a row, around the rows, and of the title."""
CHARACTER = 6.6
LEAST_WIDTH = 1.0
"""Narrower functions are left out."""
COLORS = ("#fde68a", "#fdba74", "#fca5a5", "#fcd34d", "#fbbf24")


@dataclass(slots=True)
class Frame:
    name: str
    samples: int = 0
    called: "dict[str, Frame]" = field(default_factory=dict)


def build(stacks: Sequence[Stack]) -> Frame:
    """Return the outermost frame of all stacks."""
    root = Frame("all")
    for functions, samples in stacks:
        frame = root
        frame.samples += samples
        for name in functions:
            frame = frame.called.setdefault(name, Frame(name))
            frame.samples += samples
    return root


def draw(root: Frame, title: str) -> str:
    """Return an SVG. A function stands below the one that called it; the pointer on it shows its name and share."""
    boxes = list(_place(root, 0.0, float(WIDTH - 2 * MARGIN), 0))
    height = HEAD + ROW * (1 + max(depth for *_, depth in boxes)) + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for frame, x, width, depth in boxes:
        share = frame.samples / root.samples
        shown = frame.name[: int((width - 4) / CHARACTER)] if width > 4 * CHARACTER else ""
        color = COLORS[sum(frame.name.encode()) % len(COLORS)]
        lines.append(
            f'<g><title>{escape(frame.name)}: {share:.1%}</title><rect x="{MARGIN + x:.1f}" y="{HEAD + depth * ROW}"'
            f' width="{width:.1f}" height="{ROW - 1}" fill="{color}"/>'
            f'<text x="{MARGIN + x + 2:.1f}" y="{HEAD + depth * ROW + 12}">{escape(shown)}</text></g>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _place(frame: Frame, x: float, width: float, depth: int) -> Iterator[tuple[Frame, float, float, int]]:
    yield frame, x, width, depth
    for called in sorted(frame.called.values(), key=lambda called: called.name):
        share = width * called.samples / frame.samples
        if share >= LEAST_WIDTH:
            yield from _place(called, x, share, depth + 1)
        x += share
