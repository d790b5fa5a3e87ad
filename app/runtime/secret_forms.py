"""The forms of secrets, and `find_secrets`: keys of known services, tokens, private keys.

Each form is a fixed beginning and the characters after it, as the service that issues it documents it; what only looks
random is no secret, because code is full of hashes. A guard, which changes what a model gets, goes by the whole form. A
log, from which nothing is restored, also loses what has only the beginning of one.

None of the expressions can take more than linear time: behind the fixed beginning is one run of characters.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from app.runtime.text_tests import TextTest, make_text_test, make_words_test


class SecretForm(NamedTuple):
    """One form."""

    keywords: tuple[str, ...]
    """A text with a secret has one of them."""
    test: str
    """Occurs in each text with a secret, for `make_text_test`."""
    expression: re.Pattern[str] | None
    """Its first group is the secret; without a group, all of it. None: the form counts in logs only."""
    in_logs: re.Pattern[str] | None = None
    """What a log loses besides."""


class Place(NamedTuple):
    start: int
    end: int


_BEFORE, _AFTER = r"(?<![A-Za-z0-9_-])", r"(?![A-Za-z0-9_-])"


def _form(expression: str, test: str, *keywords: str, flags: int = 0, in_logs: str | None = None) -> SecretForm:
    loose = None if in_logs is None else re.compile(in_logs)
    return SecretForm(keywords, test, re.compile(expression, flags), loose)


def _key(beginning: str, rest: str, *keywords: str, in_logs: str | None = None) -> SecretForm:
    """A key that begins with these characters and stands alone."""
    test = beginning + (rest if in_logs is None else r"\S{10}")
    return _form(f"{_BEFORE}{beginning}{rest}{_AFTER}", test, *(keywords or (beginning,)), in_logs=in_logs)


def _short(beginning: str) -> str:
    """What a log takes for a key that begins with these characters."""
    return rf"(?<!\w){beginning}[\w-]{{16,256}}"


def _in_logs(expression: str, test: str, *keywords: str) -> SecretForm:
    """What counts in logs only."""
    return SecretForm(keywords, test, None, re.compile(expression))


def _spell(words: str) -> Iterator[str]:
    """Yield a name as JSON, code and headers write it."""
    parts = words.split()
    for case in (str.lower, str.title, str.upper):
        yield from (join.join(map(case, parts)) for join in ("_", "-", ""))
    yield parts[0] + "".join(map(str.title, parts[1:]))


SECRET_NAMES = frozenset(
    name
    for words in (
        *("authorization", "proxy authorization", "authorization token", "api key", "x api key", "access token"),
        *("refresh token", "auth token", "bearer token", "client secret", "private key", "password", "passwd"),
    )
    for name in _spell(words)
)
"""The names of fields whose texts are secrets, whatever their form, such as those of the credentials that a request
gives a server of tools. They count in logs only."""
_QUOTE = r"[\\\x7f]{0,4}[\"']"
"""Also within a text of JSON, whose backslashes a log replaces."""
_SECRET_FIELD = rf"[\"'](?:{'|'.join(sorted(SECRET_NAMES))}){_QUOTE}\s{{0,20}}:\s{{0,20}}{_QUOTE}"

_NAMED = r"[\"']?\s{0,4}(?:=>|[:=])\s{0,4}[\"']?"
"""Between the name of a setting and its value."""

SECRET_FORMS: tuple[SecretForm, ...] = (
    # Model servers.
    _key("sk-", r"[A-Za-z0-9_-]{20,300}", in_logs=_short("sk-")),  # OpenAI, Anthropic, OpenRouter, DeepSeek, LiteLLM
    _in_logs(_short("(?:[pr]k[-_]|sk_)"), r"[prs]k[-_]\S{10}", "pk-", "pk_", "rk-", "rk_", "sk_"),
    _key("gsk_", r"[A-Za-z0-9]{40,80}", in_logs=r"gsk_[\w-]{16,256}"),
    _in_logs(r"csk-[\w-]{16,256}", r"csk-\S{10}", "csk-"),
    _key("hf_", r"[A-Za-z0-9]{30,50}", in_logs=_short("hf_")),
    _in_logs(_short("(?:fw|tgp)_"), r"(?:fw|tgp)_\S{10}", "fw_", "tgp_"),
    _key("r8_", r"[A-Za-z0-9]{30,50}", in_logs=_short("r8_")),
    _key("xai-", r"[A-Za-z0-9]{60,100}", in_logs=r"xai-[\w-]{16,256}"),
    _key("pplx-", r"[A-Za-z0-9]{40,60}", in_logs=r"pplx-[\w-]{16,256}"),
    _key("nvapi-", r"[A-Za-z0-9_-]{50,80}", in_logs=r"nvapi-[\w-]{16,256}"),
    # Clouds.
    _key(
        "(?:AKIA|ASIA|ABIA|ACCA)",
        r"[A-Z2-7]{16}",
        "AKIA",
        "ASIA",
        "ABIA",
        "ACCA",
        in_logs=r"A[KS]IA(?<!\w.{4})[A-Z0-9]{16}(?!\w)",
    ),
    _form(
        rf"(?:aws_?secret_?(?:access_?)?key){_NAMED}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        "(?i:aws_?secret_?(?:access_?)?key)",
        *("secret", "SECRET", "Secret"),
        flags=re.IGNORECASE,
    ),
    _key("ABSK", r"[A-Za-z0-9+/]{100,200}={0,2}"),
    _key("AIza", r"[A-Za-z0-9_-]{35}", in_logs=r"AIza[\w-]{30,60}"),
    _key("ya29\\.", r"[A-Za-z0-9_-]{20,400}", "ya29."),
    _key("GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    _form(r"AccountKey=([A-Za-z0-9+/]{86}==)", "AccountKey=[A-Za-z0-9+/]", "AccountKey="),
    _key("dop_v1_", r"[a-f0-9]{64}"),
    _key("dapi", r"[a-f0-9]{32}(?:-[0-9])?"),
    _key("hv[sbr]\\.", r"[A-Za-z0-9_-]{24,300}", "hvs.", "hvb.", "hvr."),
    # Code and packages.
    _key("gh[pousr]_", r"[A-Za-z0-9]{36,255}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", in_logs=r"gh[pousr]_\w{30,255}"),
    _key("github_pat_", r"[A-Za-z0-9_]{22,255}", in_logs=r"github_pat_\w{30,255}"),
    _key(
        "gl(?:pat|dt|rt|ptt|ft|agent)-",
        r"[A-Za-z0-9_.-]{20,300}",
        *("glpat-", "gldt-", "glrt-", "glptt-", "glagent-", "glft-"),
        in_logs=r"glpat-[\w-]{20,64}",
    ),
    _key("npm_", r"[A-Za-z0-9]{36}", in_logs=r"npm_\w{36}"),
    _key("pypi-", r"AgE[A-Za-z0-9_-]{50,400}", in_logs=r"pypi-[\w-]{50,255}"),
    _key("dckr_pat_", r"[A-Za-z0-9_-]{27,60}"),
    _key("rubygems_", r"[a-f0-9]{48}"),
    _key("sq0(?:atp|csp)-", r"[A-Za-z0-9_-]{22,60}", "sq0"),
    # Services.
    _key("xox[abeoprs]-", r"[A-Za-z0-9-]{10,255}", "xox", in_logs=r"xox[abeoprs]-[\w-]{10,255}"),
    _key("xapp-", r"[A-Za-z0-9-]{20,255}"),
    _form(
        r"hooks\.slack\.com/(services/T[A-Za-z0-9]{6,14}/B[A-Za-z0-9]{6,14}/[A-Za-z0-9]{20,30})",
        r"hooks\.slack\.com/services/T",
        "hooks.slack.com",
    ),
    _key("[sr]k_(?:live|test)_", r"[A-Za-z0-9]{16,255}", "k_live_", "k_test_"),
    _key("whsec_", r"[A-Za-z0-9+/=]{24,100}", in_logs=_short("whsec_")),
    _key("SG\\.", r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}", "SG."),
    _key("key-", r"[a-f0-9]{32}"),
    _key("shp(?:at|ca|pa|ss)_", r"[a-fA-F0-9]{32}", "shp"),
    _key("lin_api_", r"[A-Za-z0-9]{40}"),
    _key("ntn_", r"[A-Za-z0-9]{40,60}"),
    _key("glsa_", r"[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    _form(r"(?<![0-9A-Za-z])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])", "[0-9]:AA[A-Za-z0-9_-]{8}", ":AA"),
    _key("AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    # Of any service.
    _key(
        "eyJ",
        r"[A-Za-z0-9_-]{8,8192}\.eyJ[A-Za-z0-9_-]{8,16384}\.[A-Za-z0-9_-]{8,2048}",
        in_logs=r"eyJ[\w-]{8,4096}\.eyJ[\w-]{8,8192}\.[\w-]{8,2048}",
    ),
    _form(
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@\"'<>]{0,100}:[^\s/@\"'<>]{1,200})@",
        r"://[^/@\"'<> \n]*:[^/@\"'<> \n]+@",
        "://",
        in_logs=r"(?<=://)[^\s/@'\"<>:]{1,256}:[^\s/@'\"<>]{1,256}(?=@)",
    ),
    _form(
        rf"authorization{_NAMED}(?:bearer|basic|token|apikey) {{1,4}}([A-Za-z0-9._~+/=-]{{8,8192}})",
        "(?i:authorization)",
        *("uthorization", "UTHORIZATION"),
        flags=re.IGNORECASE,
    ),
    _in_logs(rf"{_SECRET_FIELD}([^\"'\\\n\x7f]{{1,8192}})", rf"{_SECRET_FIELD}[^\"'\n]", *SECRET_NAMES),
    _in_logs(r"(?<=earer )[\w*.\-+/=]{16,8192}", r"earer \S{16}", "earer "),
    _in_logs(r"(?<=asic )[A-Za-z0-9+/]{16,8192}={0,2}", r"asic [A-Za-z0-9+/]{16}", "asic "),
)

_PRIVATE_KEY_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
_may_have_private_key = make_text_test("PRIVATE KEY")


def find_secrets(text: str) -> Iterator[Place]:
    """Yield where the secrets of a text are, as guards find them."""
    for form in _list_forms(text):
        if form.expression is not None:
            yield from _search(text, form.expression)
    yield from _find_private_keys(text)


def find_secrets_in_log(text: str) -> Iterator[Place]:
    """Yield where secrets are, and what may be one. Places may overlap."""
    for form in _list_forms(text):
        for expression in (form.expression, form.in_logs):
            if expression is not None:
                yield from _search(text, expression)
    yield from _find_private_keys(text)


def _list_forms(text: str) -> list[SecretForm]:
    """Return the forms that the text may hold."""
    has_keyword, tests = _make_tests()
    return [form for test, form in tests if test(text)] if has_keyword(text) else []


@cache
def _make_tests() -> tuple[TextTest, Sequence[tuple[TextTest, SecretForm]]]:
    words = {word for form in SECRET_FORMS for word in form.keywords}
    return make_words_test(words), [(make_text_test(form.test), form) for form in SECRET_FORMS]


def _search(text: str, expression: re.Pattern[str]) -> Iterator[Place]:
    group = 1 if expression.groups else 0
    for found in expression.finditer(text):
        yield Place(*found.span(group))


def _find_private_keys(text: str) -> Iterator[Place]:
    """Yield whole blocks. One without an end goes to the end of the text."""
    if not _may_have_private_key(text):
        return
    place = 0
    while (begin := _PRIVATE_KEY_BEGIN.search(text, place)) is not None:
        end_line = f"-----END {begin.group(1)}-----"
        end = text.find(end_line, begin.end())
        place = len(text) if end < 0 else end + len(end_line)
        yield Place(begin.start(), place)
