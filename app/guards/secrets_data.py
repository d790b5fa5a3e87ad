"""The forms of secrets: keys of known services, tokens, private keys. Each form is a fixed beginning and the characters
after it, as the service that issues it documents it; what only looks random is no secret, because code is full of
hashes.

None of the expressions can take more than linear time: behind the fixed beginning is one run of characters.
"""

import re

from msgspec import Struct


class SecretForm(Struct, frozen=True):
    """One form. It is searched only in a text that has one of the `keywords`."""

    keywords: tuple[str, ...]
    expression: re.Pattern[str]
    """Its first group is the secret; without a group, all of it."""


def _form(expression: str, *keywords: str, flags: int = 0) -> SecretForm:
    return SecretForm(keywords, re.compile(expression, flags))


_BEFORE, _AFTER = r"(?<![A-Za-z0-9_-])", r"(?![A-Za-z0-9_-])"


def _key(beginning: str, rest: str, *keywords: str) -> SecretForm:
    """A key that begins with these characters and stands alone."""
    return _form(f"{_BEFORE}{beginning}{rest}{_AFTER}", *(keywords or (beginning,)))


_NAMED = r"[\"']?\s{0,4}(?:=>|[:=])\s{0,4}[\"']?"
"""Between the name of a setting and its value."""

SECRET_FORMS: tuple[SecretForm, ...] = (
    # Model servers.
    _key("sk-", r"[A-Za-z0-9_-]{20,300}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, LiteLLM
    _key("gsk_", r"[A-Za-z0-9]{40,80}"),
    _key("hf_", r"[A-Za-z0-9]{30,50}"),
    _key("r8_", r"[A-Za-z0-9]{30,50}"),
    _key("xai-", r"[A-Za-z0-9]{60,100}"),
    _key("pplx-", r"[A-Za-z0-9]{40,60}"),
    _key("nvapi-", r"[A-Za-z0-9_-]{50,80}"),
    # Clouds.
    _key("(?:AKIA|ASIA|ABIA|ACCA)", r"[A-Z2-7]{16}", "AKIA", "ASIA", "ABIA", "ACCA"),
    _form(
        rf"(?:aws_?secret_?(?:access_?)?key){_NAMED}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        *("secret", "SECRET", "Secret"),
        flags=re.IGNORECASE,
    ),
    _key("ABSK", r"[A-Za-z0-9+/]{100,200}={0,2}"),
    _key("AIza", r"[A-Za-z0-9_-]{35}"),
    _key("ya29\\.", r"[A-Za-z0-9_-]{20,400}", "ya29."),
    _key("GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    _form(r"AccountKey=([A-Za-z0-9+/]{86}==)", "AccountKey="),
    _key("dop_v1_", r"[a-f0-9]{64}"),
    _key("dapi", r"[a-f0-9]{32}(?:-[0-9])?"),
    _key("hv[sbr]\\.", r"[A-Za-z0-9_-]{24,300}", "hvs.", "hvb.", "hvr."),
    # Code and packages.
    _key("gh[pousr]_", r"[A-Za-z0-9]{36,255}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _key("github_pat_", r"[A-Za-z0-9_]{22,255}"),
    _key(
        "gl(?:pat|dt|rt|ptt|ft|agent)-",
        r"[A-Za-z0-9_.-]{20,300}",
        "glpat-",
        "gldt-",
        "glrt-",
        "glptt-",
        "glagent-",
        "glft-",
    ),
    _key("npm_", r"[A-Za-z0-9]{36}"),
    _key("pypi-AgE", r"[A-Za-z0-9_-]{50,400}"),
    _key("dckr_pat_", r"[A-Za-z0-9_-]{27,60}"),
    _key("rubygems_", r"[a-f0-9]{48}"),
    _key("sq0(?:atp|csp)-", r"[A-Za-z0-9_-]{22,60}", "sq0"),
    # Services.
    _key("xox[abeoprs]-", r"[A-Za-z0-9-]{10,255}", "xox"),
    _key("xapp-", r"[A-Za-z0-9-]{20,255}"),
    _form(r"hooks\.slack\.com/(services/T[A-Za-z0-9]{6,14}/B[A-Za-z0-9]{6,14}/[A-Za-z0-9]{20,30})", "hooks.slack.com"),
    _key("[sr]k_(?:live|test)_", r"[A-Za-z0-9]{16,255}", "k_live_", "k_test_"),
    _key("whsec_", r"[A-Za-z0-9+/=]{24,100}"),
    _key("SG\\.", r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}", "SG."),
    _key("key-", r"[a-f0-9]{32}"),
    _key("shp(?:at|ca|pa|ss)_", r"[a-fA-F0-9]{32}", "shp"),
    _key("lin_api_", r"[A-Za-z0-9]{40}"),
    _key("ntn_", r"[A-Za-z0-9]{40,60}"),
    _key("glsa_", r"[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    _form(r"(?<![0-9A-Za-z])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])", ":AA"),
    _key("AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    # Of any service.
    _key("eyJ", r"[A-Za-z0-9_-]{8,8192}\.eyJ[A-Za-z0-9_-]{8,16384}\.[A-Za-z0-9_-]{8,2048}"),
    _form(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@\"'<>]{0,100}:[^\s/@\"'<>]{1,200})@", "://"),
    _form(
        rf"authorization{_NAMED}(?:bearer|basic|token|apikey) {{1,4}}([A-Za-z0-9._~+/=-]{{8,8192}})",
        *("uthorization", "UTHORIZATION"),
        flags=re.IGNORECASE,
    ),
)

PRIVATE_KEY_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
