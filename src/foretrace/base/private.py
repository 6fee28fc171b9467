"""What in a text is a key. The run record and kept texts of a shared copy use the same rules.

    hide_secrets("login hf_AbCdEf…")        # "login ***"

Credentials are known by their prefix, by what they are called, by their form, by how random. Words
are joined by `_` in names, so a key may follow one: `run_hf_…`. A boundary here is where letters
and digits end, not where `\\w` does. Every pattern is linear: what may be long is possessive and
last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from foretrace.base.patterns import regex

_DEEPEST = 32  # what is nested deeper is left out
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # what a JSON writer takes
Replace = Callable[[str], str]  # from a private text to what takes its place
# Patterns, each with words without which a text cannot match it: most names have none of them.
Rules = tuple[tuple[list[str], re.Pattern[str]], ...]


def rules(*rows: tuple[str, str]) -> Rules:
    """Rules out of words, `|` between them, and a pattern."""
    return tuple((words.split("|"), regex(pattern)) for words, pattern in rows)


VALUE = r"""(?:\\?"[^"\\]*+|\\?'[^'\\]*+|[^\s"'\\][^\s"']*+)"""
_SECRET = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|credential|authorization|bearer|cookie|jwt|api[_-]?key"
    r"|(?:access|account|private|shared|license|encryption|signing|master|session)[_-]?key"
    r"|(?:session|csrf|client|tenant)[_-]?id)s?"
)
ASSIGNED = r"[\\\"']{0,4}+\s{0,8}+[=:](?!:)>?\s{0,8}+"
_SCHEME = r"(?:(?:basic|bearer|digest|token|negotiate)\s{1,4})?+"
_RULES = rules(
    (
        "-----begin|ssh-|ecdsa-",
        r"-----BEGIN[^-\n]{0,64}-----(?:(?!-----END)[\s\S])*+(?:-----END[^-\n]{0,64}-----)?"
        r"|(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w{1,20}) [\w+/=]{16,}+",
    ),
    ("://", r"(?<=://)[^\s\"'<>]{1,512}(?=@)"),
    # PASSWORD=x, "password": "x y", --password x, password x
    (
        "pass|pwd|secret|credential|authorization|bearer|cookie|jwt|key|id",
        rf"(?i)({_SECRET}[\w-]{{0,24}}+(?:{ASSIGNED}|\s{{1,8}}(?:is\s{{1,4}})?){_SCHEME}){VALUE}",
    ),
    # only where a value is assigned, and no count: a model has tokens too
    (
        "token|auth|sig|pass|pw",
        rf"(?i)((?:token|auth|signature|sig|pass|pw)(?![A-Za-z0-9])[\w-]{{0,24}}+{ASSIGNED})"
        rf"(?!\d{{1,6}}(?![\w.-])){VALUE}",
    ),
    (
        "token|auth|pass|pw|key",
        rf"(?i)((?<![\w-])--?[\w-]{{0,24}}(?:token|auth|pass|pw|key)\s{{1,4}}){VALUE}",
    ),
    ("-u", rf"((?<![\w-])(?:-u|--user)[\s=]{{1,4}})[^\s:\"']{{1,128}}+:{VALUE}"),
    # what services put before their keys, and the least that follows
    (
        "",
        r"""(?x)(?<![A-Za-z0-9])(?:
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
    ),
    ("-|_", r"(?i)(?<![0-9a-f])[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}(?![0-9a-f])"),
)


# A token, its pieces between `_`, and what in it is a type, a size or an argument of Triton 2.
_TOKEN = regex(r"\w[\w+/-]{11,}+=*+")
_PIECE = regex(r"[A-Za-z0-9+/=-]++")
_TYPES = regex(
    r"[bt]?f(?:8|16|32|64)|[Ee]\d[Mm]\d|(?<!\d)\d++(?:x\d++)++|0[cde]{1,2}1[cde](?:\d|[cde])*+"
)
_CHANGE = regex(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
# Of 20 random letters and digits 9 change their kind, of as many in words 4.
_SHORTEST, _LEAST_CHANGES, _CHANGES = 12, 4, 0.2
_DIGITS = regex(r"(?=[a-f]*+\d)[0-9a-f]{16}|(?=[A-F]*+\d)[0-9A-F]{16}")


def words(text: str) -> frozenset[str]:
    """The words of a text, for tables in code."""
    return frozenset(text.split())


def hide_keys(text: str, replace: Replace) -> str:
    """The text without credentials of known forms; what a credential is called stays."""
    return applied(_RULES, text, replace)


def hide_random(text: str, replace: Replace) -> str:
    """The text without tokens that look random."""
    return _TOKEN.sub(lambda token: _without_random(token[0], replace), text)


def _without_random(token: str, replace: Replace) -> str:
    """The token without pieces in a row that nobody would write for people to read."""
    rows = list[tuple[int, int]]()
    for piece in _PIECE.finditer(token):
        if _is_odd(piece[0]):
            follows = bool(rows) and rows[-1][1] == piece.start() - 1
            rows.append((rows.pop()[0] if follows else piece.start(), piece.end()))
    parts, done = list[str](), 0
    for start, end in rows:
        if _looks_random(token[start:end]):
            parts += [token[done:start], replace(token[start:end])]
            done = end
    return "".join((*parts, token[done:]))


def _is_odd(piece: str) -> bool:
    """Whether letters and digits change more often than in words and numbers."""
    plain = _TYPES.sub("", piece)
    often = len(_CHANGE.findall(plain)) > _CHANGES * len(piece)
    return often or _DIGITS.search(plain) is not None


def _looks_random(row: str) -> bool:
    plain = _TYPES.sub("", row)
    often = len(row) >= _SHORTEST and len(_CHANGE.findall(plain)) >= _LEAST_CHANGES
    return often or _DIGITS.search(plain) is not None


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


def hide_secrets(text: str, replace: Replace = lambda secret: "***") -> str:
    """The text without credentials, of known forms and of others."""
    return hide_random(hide_keys(text, replace), replace)


def cleaned(value: Any, clean: Callable[[str], str], key: str = "", depth: int = 0) -> Any:
    """A JSON value with every text, keys included, passed through `clean`.

    A text is cleaned together with its key, which may say what it is.
    """
    if isinstance(value, str):
        return clean(f"{key}{clean(value)}").removeprefix(key)
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return None
    if isinstance(value, dict | list | tuple) and depth >= _DEEPEST:
        return None
    if isinstance(value, dict):
        entries = [(str(name), each) for name, each in value.items()]
        return {clean(name): cleaned(each, clean, f"{name}=", depth + 1) for name, each in entries}
    if isinstance(value, list | tuple):
        return [cleaned(each, clean, key, depth + 1) for each in value]
    return value
