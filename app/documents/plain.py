"""Text that is text already: its encoding; and HTML without its marks."""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.documents.jobs import Unreadable

_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_HIGH = re.compile(rb"[\x80-\xff]")
_CHINESE_PAIR = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")
_CHINESE_SHARE = 0.9
_META = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_-]{2,40})""", re.IGNORECASE)
_MAX_CONTROL_SHARE = 0.01

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "canvas"})
_BLOCKS = frozenset(
    ("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure")
    + ("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre")
    + ("section", "table", "tbody", "tfoot", "thead", "tr", "ul")
)


def decoded(data: bytes, charset: str | None) -> str:
    """Raises Unreadable for what is no text in any encoding."""
    text = _in_some_encoding(data, charset)
    if len(_CONTROL.findall(text[:65536])) > len(text[:65536]) * _MAX_CONTROL_SHARE:
        raise Unreadable("is a binary file of no known kind")
    return text


def _in_some_encoding(data: bytes, charset: str | None) -> str:
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    meta = _META.search(data[:2048])
    for name in ("utf-8", charset, meta.group(1).decode("ascii") if meta else None):
        text = _strictly(data, name)
        if text is not None:
            return text
    if _looks_chinese(data[:65536]) and (chinese := _strictly(data, "gb18030")):
        return chinese
    return data.decode("cp1252", "replace")


def _looks_chinese(data: bytes) -> bool:
    """Bytes above ASCII come in pairs: accents of other languages stand alone."""
    pairs = len(_CHINESE_PAIR.findall(data))
    return pairs * 2 > len(_HIGH.findall(data)) * _CHINESE_SHARE


def _strictly(data: bytes, encoding: str | None) -> str | None:
    if not encoding:
        return None
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError, ValueError):
        return None


def is_html(text: str, name: str, media_type: str) -> bool:
    start = text[:512].lstrip("\ufeff \t\r\n").lower()
    if media_type in ("text/html", "application/xhtml+xml") or name.lower().endswith((".html", ".htm", ".xhtml")):
        return True
    return start.startswith(("<!doctype html", "<html"))


def html_text(text: str) -> str:
    """Headings with `#`, list items with `-`, cells with `|`; white space as a browser shows it."""
    tree = LexborHTMLParser(text)
    pieces: list[str] = []
    title = tree.css_first("title")
    if title is not None and title.text(strip=True):
        pieces.append(f"{title.text(strip=True)}\n\n")
    if tree.body is not None:
        _walk(tree.body, pieces)
    lines = (" ".join(line.split()).removesuffix(" |") for line in "".join(pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _walk(root: LexborNode, pieces: list[str]) -> None:
    """With a stack of its own: a page may be nested a hundred thousand deep."""
    stack: list[tuple[LexborNode, bool]] = [(root, False)]
    while stack:
        node, left = stack.pop()
        if left:
            if node.tag in _BLOCKS:
                _break(pieces)
            else:
                pieces.append(" | ")
            continue
        if node.is_text_node:
            pieces.append((node.text_content or "").replace("\n", " "))
        elif node.tag not in _SILENT:
            _enter(node, pieces, stack)


def _enter(node: LexborNode, pieces: list[str], stack: list[tuple[LexborNode, bool]]) -> None:
    tag = node.tag or ""
    if tag in _BLOCKS:
        _break(pieces)
        if mark := _mark(tag):
            pieces.append(mark)
    if tag in _BLOCKS or tag in ("td", "th"):
        stack.append((node, True))
    children = []
    child = node.first_child
    while child is not None:
        children.append((child, False))
        child = child.next
    stack.extend(reversed(children))


def _break(pieces: list[str]) -> None:
    """A line ends, unless it has not begun."""
    if not pieces or not pieces[-1].endswith("\n"):
        pieces.append("\n")


def _mark(tag: str) -> str:
    if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
        return f"{'#' * int(tag[1])} "
    return "- " if tag == "li" else ""
