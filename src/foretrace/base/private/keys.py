"""Credentials in a text: by their prefix, by what they are called, by their form, by chance.

Words are joined by `_` in names, so a key may follow one: `run_hf_…`. A boundary here is where
letters and digits end, not where `\\w` does. Every pattern is linear: what may be long is
possessive and last.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from foretrace.base.private.random_tokens import random_parts

Replace = Callable[[str], str]  # from a private text to what takes its place
# Patterns, each with words without which a text cannot match it: most names have none of them.
Rules = tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]

VALUE = r"""(?:\\?"[^"\\]*+|\\?'[^'\\]*+|[^\s"'\\][^\s"']*+)"""
_SECRET = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|credential|authorization|bearer|cookie|jwt|api[_-]?key"
    r"|(?:access|account|private|shared|license|encryption|signing|master|session)[_-]?key"
    r"|(?:session|csrf|client|tenant)[_-]?id)s?"
)
ASSIGNED = r"[\\\"']{0,4}+\s{0,8}+[=:](?!:)>?\s{0,8}+"
_SCHEME = r"(?:(?:basic|bearer|digest|token|negotiate)\s{1,4})?+"
_CALLED = (
    "pass",
    "pwd",
    "secret",
    "credential",
    "authorization",
    "bearer",
    "cookie",
    "jwt",
    "key",
    "id",
)
_RULES: Rules = (
    (
        ("-----begin", "ssh-", "ecdsa-"),
        re.compile(
            r"-----BEGIN[^-\n]{0,64}-----(?:(?!-----END)[\s\S])*+(?:-----END[^-\n]{0,64}-----)?"
            r"|(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w{1,20}) [\w+/=]{16,}+"
        ),
    ),
    (("://",), re.compile(r"(?<=://)[^\s\"'<>]{1,512}(?=@)")),
    (  # PASSWORD=x, "password": "x y", --password x, password x
        _CALLED,
        re.compile(
            rf"(?i)({_SECRET}[\w-]{{0,24}}+(?:{ASSIGNED}|\s{{1,8}}(?:is\s{{1,4}})?){_SCHEME}){VALUE}"
        ),
    ),
    (  # only where a value is assigned, and no count: a model has tokens too
        ("token", "auth", "sig", "pass", "pw"),
        re.compile(
            rf"(?i)((?:token|auth|signature|sig|pass|pw)(?![A-Za-z0-9])[\w-]{{0,24}}+{ASSIGNED})"
            rf"(?!\d{{1,6}}(?![\w.-])){VALUE}"
        ),
    ),
    (
        ("token", "auth", "pass", "pw", "key"),
        re.compile(rf"(?i)((?<![\w-])--?[\w-]{{0,24}}(?:token|auth|pass|pw|key)\s{{1,4}}){VALUE}"),
    ),
    (
        ("-u",),
        re.compile(rf"((?<![\w-])(?:-u|--user)[\s=]{{1,4}})[^\s:\"']{{1,128}}+:{VALUE}"),
    ),
    (  # what services put before their keys, and the least that follows
        ("",),
        re.compile(
            r"""(?<![A-Za-z0-9])(?:
            (?:hf|npm|r8|gsk|nfp|ntn|whsec|secret|rubygems|gh[a-z])_[A-Za-z0-9]{12,}+
            |(?:sk|rk|pk)_(?:live|test|prod)_\w{6,}+
            |(?:github_pat|dckr_pat|do[op]_v\d|lin_api|lsv2|pcsk|glsa|glc|shp[a-z]{2}|figd|wandb)_[\w.-]{12,}+
            |(?:[sr]k|key|nvapi|xai|pplx|gl[a-z]{2,4}|xox[a-z]|xapp|pypi|GOCSPX|HRKU|PMAK|tskey
              |AGE-SECRET-KEY|sq0[a-z]{3})-[\w.-]{12,}+
            |(?:SG|hv[sb]|ya29)\.[\w.-]{12,}+
            |AT(?:ATT|BB)[\w.-]{12,}+
            |1//0[\w-]{12,}+
            |(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{8,}+
            |AIza[\w-]{16,}+
            |eyJ[\w-]{6,}+(?:\.[\w-]*+){0,4}+
            |\d{8,10}:[\w-]{30,}+
            )""",
            re.VERBOSE,
        ),
    ),
    (
        ("-", "_"),
        re.compile(
            r"(?i)(?<![0-9a-f])[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}(?![0-9a-f])"
        ),
    ),
)


def hide_keys(text: str, replace: Replace) -> str:
    """The text without credentials of known forms; what a credential is called stays."""
    return applied(_RULES, text, replace)


def hide_random(text: str, replace: Replace) -> str:
    """The text without tokens that look random."""
    parts, done = list[str](), 0
    for start, end in random_parts(text):
        parts += [text[done:start], replace(text[start:end])]
        done = end
    return "".join((*parts, text[done:]))


def applied(rules: Rules, text: str, replace: Replace) -> str:
    """The text after each rule that it may match. A group of a pattern stays as it is."""

    def shown(match: re.Match[str]) -> str:
        stays = match[1] if match.re.groups else ""
        return stays + replace(match[0].removeprefix(stays))

    lower = text.lower()
    for needed, pattern in rules:
        if any(word in lower for word in needed):
            text = pattern.sub(shown, text)
    return text
