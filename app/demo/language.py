"""Tells the language of a short text by its script and, for Latin letters, by a few common words."""

import re
from collections import Counter

_SCRIPTS = (
    ("ko", re.compile(r"[\uac00-\ud7a3\u1100-\u11ff]"), 3),
    ("kana", re.compile(r"[\u3040-\u30ff]"), 3),
    ("han", re.compile(r"[\u3400-\u9fff]"), 3),
    ("ru", re.compile(r"[\u0400-\u04ff]"), 1),
    ("ar", re.compile(r"[\u0600-\u06ff]"), 1),
    ("latin", re.compile(r"[A-Za-z\u00c0-\u024f]"), 1),
)
"""Script, its letters, and how many Latin letters one of them is worth."""

_COMMON = {
    "en": "the is are what how who where when why which in and of to a an do does you your it for can please tell "
    "me my",
    "es": "el la los las qué que cómo como quién dónde cuál cuándo es está en y de un una por para hace hay del mi me",
    "fr": "le la les des est quel quelle quels comment qui où quand pourquoi que en et de un une il fait dans "
    "pour du au à je moi",
    "de": "der die das ist wie was wer wo wann warum welche in und von ein eine im den dem für mir bitte ich es "
    "auf spät",
    "pt": "o os as qual como quem onde quando por que é está em e de um uma no na do da para me você são não hoje",
}
_TELLING = {"es": "¿¡ñ", "de": "ßäü", "pt": "ãõ", "fr": "êèœùû"}
_WORDS = {code: frozenset(words.split()) for code, words in _COMMON.items()}


def detect(text: str) -> str:
    """The code of the language, `en` when nothing tells."""
    weights = {script: weight * len(letters.findall(text)) for script, letters, weight in _SCRIPTS}
    kana = weights.pop("kana")
    if kana * 8 >= weights["han"] and kana:  # Japanese mixes both; Chinese may quote a kana or two
        weights["han"] += kana
    script = max(weights, key=lambda each: weights[each])
    if not weights[script] or script == "latin":
        return _latin(text.casefold())
    if script == "han":
        return "ja" if kana * 8 >= weights["han"] and kana else "zh"
    return script


def _latin(text: str) -> str:
    words = re.findall(r"[^\W\d_]+", text)
    score: Counter[str] = Counter({"en": 0})
    for code, common in _WORDS.items():
        score[code] += sum(word in common for word in words)
    for code, letters in _TELLING.items():
        score[code] += 2 * any(letter in text for letter in letters)
    best, count = score.most_common(1)[0]
    return best if count > score["en"] else "en"
