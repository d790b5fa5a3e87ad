"""What a question gives to fill arguments with: names, quotations and numbers, in the order in which they matter."""

import re
from dataclasses import dataclass

from app.demo.words import is_filler, words

_MOST_TEXT = 2000
_MOST_ALIKE = 4

_PREPOSITIONS = words(
    "in at for near from to of about with en à em para für nach aus bei im de в во на из для في من إلى عن"
)
_LINKS = words(
    ", 、 ， ; & / and or y e o et ou und oder и или 和 与 與 跟 及 以及 还有 と "
    "や 및 그리고 와 과 랑 이랑 와의 و وفي as 또는"
)
_CONJUNCTIONS = _LINKS - {",", "，", ";"}  # a comma alone more often narrows a place down: "Paris, France"

_QUOTED = re.compile(
    r'"([^"\n]+)"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|«([^»\n]+)»|《([^》\n]+)》|„([^“\n]+)“|(?<!\w)\'([^\'\n]+)\'(?!\w)'
)
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,10})?(?![\w]|\.\d)")
_TOKEN = re.compile(r"[^\W\d_]+(?:[’'.-][^\W\d_]+)*")
_PIECE = re.compile(r"\w+|[^\w\s]")
_IDEOGRAPHS = re.compile(r"[\u3400-\u9fff\u30a1-\u30ff]+")
_HANGUL = re.compile(r"[\uac00-\ud7a3]+")

_HAN_GAPS = re.compile(
    "的|在|和|与|與|跟|及|以及|还有|是|吗|呢|怎么样|怎么|如何|今天|明天|现在|今日|明日|現在|天气|天氣|天気|气温|気温|温度|几点|何時|时间|時間|请问|请|告诉|"
    "查询|查一下|查|帮|我们|我|你|想|知道|一下|什么|多少|有|去|到|从|搜索|翻译|翻訳|计算|計算|検索|教|何|了|给|把|点|写|画|一|个|新闻|日期|比较|哪里|哪"
)
_PARTICLES = re.compile("(?<=..)(?:에서는|에서|에는|이랑|와의|과의|으로|에|와|과|의|은|는|을|를|도|랑|로)$")
_KOREAN_WORDS = re.compile(
    "^(?:날씨.*|기온.*|시간.*|몇.*|지금|오늘|내일|어때.*|어떤.*|어떻.*|알려.*|무엇.*|뭐.*|검색.*|계산.*|번역.*|그리고|및|주세요|해줘|좀|현재.*|인가요|이야|어디.*|있.*)$"
)


@dataclass(frozen=True, slots=True)
class Clues:
    question: str = ""
    names: tuple[str, ...] = ()
    """Quotations first, then names after a preposition, then the rest."""
    alike: tuple[str, ...] = ()
    """Names that the question lists side by side ("Paris and Tokyo"); empty or at least two."""
    quotations: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    start: int
    end: int
    rank: int
    """0 quoted, 1 after a preposition or written in ideographs, 2 capitalised, 3 capitalised at a sentence's start."""


def find(question: str) -> Clues:
    text = question[:_MOST_TEXT]
    quoted = [_quotation(match) for match in _QUOTED.finditer(text)]
    rest = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    named = _capitalised(rest) + _ideographs(rest) + _hangul(rest)
    if any(each.rank < 3 for each in named):
        named = [each for each in named if each.rank < 3]
    chains = _chains(text, sorted(quoted + (named or _plain(rest)), key=lambda each: each.start))
    ordered = sorted((each for chain in chains for each in chain), key=lambda each: each.rank)
    alike = max(chains, key=len, default=[])
    return Clues(
        question=text.strip(),
        names=tuple(dict.fromkeys(each.text for each in ordered)),
        alike=_distinct(alike),
        quotations=tuple(each.text for each in quoted),
        numbers=tuple(float(each) if "." in each else int(each) for each in _NUMBER.findall(rest)),
    )


def _distinct(chain: list[_Found]) -> tuple[str, ...]:
    texts = tuple(dict.fromkeys(each.text for each in chain))[:_MOST_ALIKE]
    return texts if len(texts) > 1 else ()


def _quotation(match: re.Match[str]) -> _Found:
    return _Found(next(group for group in match.groups() if group is not None).strip(), match.start(), match.end(), 0)


def _capitalised(text: str) -> list[_Found]:
    found: list[_Found] = []
    before = ""
    for match in _TOKEN.finditer(text):
        word = re.sub(r"[’']s$", "", match[0])
        if word[0].isupper() and not is_filler(word):
            end = match.start() + len(word)
            last = found[-1] if found else None
            if last and text[last.end : match.start()] == " ":
                found[-1] = _Found(text[last.start : end], last.start, end, min(last.rank, 2))
            else:
                found.append(_Found(word, match.start(), end, _rank(text, match.start(), before)))
        before = match[0].casefold()
    return found


def _rank(text: str, start: int, before: str) -> int:
    lead = text[:start].rstrip(" \"'([¿¡")
    if not lead or lead[-1] in ".?!:\n":
        return 3
    return 1 if before in _PREPOSITIONS else 2


def _ideographs(text: str) -> list[_Found]:
    found = []
    for run in _IDEOGRAPHS.finditer(text):
        at = run.start()
        for gap in [*_HAN_GAPS.finditer(text, run.start(), run.end()), None]:
            end = gap.start() if gap else run.end()
            if 2 <= end - at <= 8:
                found.append(_Found(text[at:end], at, end, 1))
            at = gap.end() if gap else at
    return found


def _hangul(text: str) -> list[_Found]:
    found = []
    for run in _HANGUL.finditer(text):
        word = _PARTICLES.sub("", run[0])
        if len(word) > 1 and not _KOREAN_WORDS.match(word):
            found.append(_Found(word, run.start(), run.start() + len(word), 1))
    return found


def _plain(text: str) -> list[_Found]:
    """Names in small letters, or in a script without capitals: what follows a preposition or is linked to such."""
    found: list[_Found] = []
    before = ""
    for match in _PIECE.finditer(text):
        word, start = match[0], match.start()
        linked = bool(found) and _links(text[found[-1].end : start])
        if not linked and found and "ء" <= word[0] <= "ي" and word[0] == "و" and text[found[-1].end : start] == " ":
            word, start, linked = word[1:], start + 1, True
        if word[:1].isalpha() and (before in _PREPOSITIONS or linked) and not _says_nothing(word):
            found.append(_Found(word, start, match.end(), 1))
        before = match[0].casefold().removeprefix("و") if match[0] != "و" else before
    return found


def _says_nothing(word: str) -> bool:
    return is_filler(word) or word.casefold() in _PREPOSITIONS | _LINKS or len(word) < 2


def _links(gap: str) -> bool:
    pieces = [piece.casefold() for piece in _PIECE.findall(gap)]
    return any(each in _LINKS for each in pieces) and all(
        each in _LINKS | _PREPOSITIONS or each == "the" for each in pieces
    )


def _chains(text: str, found: list[_Found]) -> list[list[_Found]]:
    """Neighbours that are listed together, those that only a comma joins as one name."""
    chains: list[list[_Found]] = []
    for each in found:
        last = chains[-1][-1] if chains else None
        if last is None or not _links(text[last.end : each.start]):
            chains.append([each])
        else:
            chains[-1].append(_Found(each.text, each.start, each.end, last.rank))
    return [_narrowed(text, chain) for chain in chains]


def _narrowed(text: str, chain: list[_Found]) -> list[_Found]:
    gaps = [text[left.end : right.start].casefold() for left, right in zip(chain, chain[1:], strict=False)]
    if not gaps or any(piece in _CONJUNCTIONS for gap in gaps for piece in _PIECE.findall(gap)):
        return chain
    whole = _Found(text[chain[0].start : chain[-1].end], chain[0].start, chain[-1].end, chain[0].rank)
    return [whole] if chain[0].rank else chain
