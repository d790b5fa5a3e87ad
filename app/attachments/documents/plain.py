"""Decode plain text in any common encoding, and extract the text of HTML."""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.attachments.documents.protocol import UnreadableFile

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


_UNCOUNTED = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
    + ("p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "option", "optgroup", "rt", "rp", "colgroup")
    + ("html", "head", "body")
)
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
_SCOPES = frozenset({"table", "marquee", "object", "applet", "template", "svg", "math", "select"})
_WALLS = _BLOCKS | _SCOPES
_TAG = re.compile(r"<(?:!--|(/?)([A-Za-z][^\s/>]*))")
MAX_HTML_DEPTH = 1024
"""The tags of elements nested deeper are dropped; their text is kept."""
_MAX_CLOSED = 64
"""How many open elements are searched for the one that an end tag closes."""


def decode_text(data: bytes, charset: str | None) -> str:
    """Decode text: by its BOM, as UTF-8, by the declared charset, as GB 18030 or as Windows-1252.

    Raises UnreadableFile for binary data.
    """
    text = _decode_any(data, charset)
    if len(_CONTROL.findall(text[:65536])) > len(text[:65536]) * _MAX_CONTROL_SHARE:
        raise UnreadableFile("is a binary file of an unknown type")
    return text


def _decode_any(data: bytes, charset: str | None) -> str:
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    meta = _META.search(data[:2048])
    for name in ("utf-8", charset, meta.group(1).decode("ascii") if meta else None):
        text = _try_decode(data, name)
        if text is not None:
            return text
    if _looks_chinese(data[:65536]) and (chinese := _try_decode(data, "gb18030")):
        return chinese
    return data.decode("cp1252", "replace")


def _looks_chinese(data: bytes) -> bool:
    """Whether most bytes above ASCII come in pairs; in other languages accented letters stand alone."""
    pairs = len(_CHINESE_PAIR.findall(data))
    return pairs * 2 > len(_HIGH.findall(data)) * _CHINESE_SHARE


def _try_decode(data: bytes, encoding: str | None) -> str | None:
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
    """Extract text: `#` before headings, `-` before list items, `|` after cells, white space as a browser shows it."""
    tree = LexborHTMLParser(_limit_depth(text, MAX_HTML_DEPTH))
    pieces: list[str] = []
    title = tree.css_first("title")
    if title is not None and title.text(strip=True):
        pieces.append(f"{title.text(strip=True)}\n\n")
    if tree.body is not None:
        _walk(tree.body, pieces)
    lines = (" ".join(line.split()).removesuffix(" |") for line in "".join(pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _limit_depth(text: str, limit: int) -> str:
    """Drop the tags of elements nested deeper than `limit`, because the parser's time grows with the square of depth.

    The depth is computed from the tags alone. Elements with optional end tags are not counted: each ends the previous.
    """
    if text.count("<") <= limit:
        return text
    stack: list[str] = []
    pieces: list[str] = []
    position = kept = beyond = 0
    while (tag := _TAG.search(text, position)) is not None:
        position = tag.end()
        end, name = tag.group(1), (tag.group(2) or "").lower()
        if not name:  # a comment
            position = _find_end(text, "-->", position)
        elif not end and name in _RAW:
            position = _find_end(text, f"</{name}", position)
        elif name in _UNCOUNTED:
            continue
        elif not end and len(stack) < limit:
            stack.append(name)
        elif end and not beyond:
            _close(stack, name)
        else:
            beyond += -1 if end else 1
            pieces += (text[kept : tag.start()], " ")
            position = kept = _find_end(text, ">", position)
    return "".join((*pieces, text[kept:]))


def _find_end(text: str, mark: str, start: int) -> int:
    index = text.find(mark, start)
    return len(text) if index < 0 else index + len(mark)


def _close(stack: list[str], name: str) -> None:
    """Remove an element and its children from the stack if the parser would close it (HTML standard, 13.2.6.4.7)."""
    walls = _SCOPES if name in _BLOCKS or name in _SCOPES else _WALLS
    for at in range(len(stack) - 1, max(-1, len(stack) - 1 - _MAX_CLOSED), -1):
        if stack[at] == name:
            del stack[at:]
            return
        if stack[at] in walls:
            return


def _walk(root: LexborNode, pieces: list[str]) -> None:
    """Collect the text without recursion: a page may be nested a hundred thousand deep."""
    stack: list[tuple[LexborNode, bool]] = [(root, False)]
    while stack:
        node, is_end = stack.pop()
        if is_end:
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
    """End the line, unless it is empty."""
    if not pieces or not pieces[-1].endswith("\n"):
        pieces.append("\n")


def _mark(tag: str) -> str:
    if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
        return f"{'#' * int(tag[1])} "
    return "- " if tag == "li" else ""
