"""Text that is text already: its encoding; and HTML without its marks."""

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
"""Tags of elements that are nested deeper are left out; their text is read."""
_MAX_CLOSED = 64
"""So many open elements are looked through for the one that an end tag names."""


def decode_text(data: bytes, charset: str | None) -> str:
    """Raises Unreadable for what is no text in any encoding."""
    text = _decode_any(data, charset)
    if len(_CONTROL.findall(text[:65536])) > len(text[:65536]) * _MAX_CONTROL_SHARE:
        raise UnreadableFile("is a binary file of no known kind")
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
    """Bytes above ASCII come in pairs: accents of other languages stand alone."""
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
    """Headings with `#`, list items with `-`, cells with `|`; white space as a browser shows it."""
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
    """The page without the tags of elements that stand deeper in each other than `limit`: the parser's time grows with
    the square of the depth. Told from the tags alone; elements whose end tags may be left out are not counted, since
    each ends the one before."""
    if text.count("<") <= limit:
        return text
    stack: list[str] = []
    pieces: list[str] = []
    place = kept = beyond = 0
    while (tag := _TAG.search(text, place)) is not None:
        place = tag.end()
        end, name = tag.group(1), (tag.group(2) or "").lower()
        if not name:  # a comment
            place = _find_end(text, "-->", place)
        elif not end and name in _RAW:
            place = _find_end(text, f"</{name}", place)
        elif name in _UNCOUNTED:
            continue
        elif not end and len(stack) < limit:
            stack.append(name)
        elif end and not beyond:
            _close(stack, name)
        else:
            beyond += -1 if end else 1
            pieces += (text[kept : tag.start()], " ")
            place = kept = _find_end(text, ">", place)
    return "".join((*pieces, text[kept:]))


def _find_end(text: str, mark: str, place: int) -> int:
    found = text.find(mark, place)
    return len(text) if found < 0 else found + len(mark)


def _close(stack: list[str], name: str) -> None:
    """Takes the element and all in it off the stack, where the parser would (HTML, 13.2.6.4.7)."""
    walls = _SCOPES if name in _BLOCKS or name in _SCOPES else _WALLS
    for at in range(len(stack) - 1, max(-1, len(stack) - 1 - _MAX_CLOSED), -1):
        if stack[at] == name:
            del stack[at:]
            return
        if stack[at] in walls:
            return


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
