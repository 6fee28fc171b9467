"""Text that leaves the machine: what a name may keep, and what is replaced by a pseudonym.

A name in a trace is chosen by people and programs: mostly `aten::mm`, sometimes
`/home/alice/run.py`. Paths, addresses, host and user names, and what looks like a key are replaced
by a word that is the same wherever the same text stood, and that nobody can turn back: it is made
with a secret that is forgotten when the run ends.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from typing import Any

_PATH = re.compile(
    # /a/b, ~/a, C:\a, \\host\share
    r"(?<!\w)(?:[A-Za-z]:)?(?:\\\\|[\\/~])[\w.@~+-]+(?:[\\/]+[^\s\"'<>|:,;()\[\]{}]+)*"
    r"|(?<![\w/])[\w.@~+-]+(?:[\\/][\w.@~+ -]+)*[\\/][\w.@~+-]*\.[A-Za-z]\w{0,7}\b"  # a/b.py
    r"|\b[\w.-]+\.(?:py|pyc|ipynb|so|json|yaml|toml|sh|cpp|cu|h|pt|safetensors)\b"
)
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b"
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|ai|dev|edu|gov|local|internal|lan|corp|cloud)\b",
    re.IGNORECASE,
)
# Known prefixes of credentials, and what is said to be one.
_KEY = re.compile(
    r"\b(?:hf_|sk-|sk_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA|AIza|eyJ|wandb_|pypi-|npm_)[\w.-]{6,}"
    r"|\b(?:password|passwd|secret|token|api[_-]?key|bearer)\b\s*[=: ]\s*\S+",
    re.IGNORECASE,
)
# Letters of both cases with digits strewn in. Names of C++ have long words too
# (MainloopSm90TmaGmmaWarpSpecialized), with digits in one or two places.
_MIXED = re.compile(r"\b(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*[a-z])(?:[A-Za-z]*\d+){3,}[A-Za-z]*\b")
_LONG = 20
_OWNER = re.compile(
    r"[\\/](?:home|users|scratch|work|data|fsx|mnt|nfs|private)[\\/]+([\w.-]+)", re.IGNORECASE
)
_COMMON = frozenset(
    {
        "python",
        "python3",
        "root",
        "main",
        "data",
        "home",
        "users",
        "user",
        "tmp",
        "work",
        "shared",
        "local",
    }
)
_SHORTEST = 3  # a shorter private word would be found inside everything


class Words:
    """Cleans text. `private` are words known to be names of hosts or people; they are replaced
    wherever they stand.
    """

    def __init__(
        self, private: Iterable[str] = (), *, paths: bool = False, hosts: bool = False
    ) -> None:
        self._salt = secrets.token_bytes(16)
        self.keep_paths, self.keep_hosts = paths, hosts
        telling = {
            word for word in private if len(word) >= _SHORTEST and word.lower() not in _COMMON
        }
        listed = sorted(telling, key=lambda word: (-len(word), word))
        pattern = "|".join(re.escape(word) for word in listed)
        self._private = re.compile(pattern, re.IGNORECASE) if listed and not hosts else None
        self._known: dict[str, str] = {}

    def clean(self, text: str) -> str:
        """The text with everything private replaced."""
        if text not in self._known:
            self._known[text] = self._clean(text)
        return self._known[text]

    def _clean(self, text: str) -> str:
        text = _KEY.sub(self._named("key"), text)
        text = _MIXED.sub(
            lambda match: self._named("key")(match) if len(match[0]) >= _LONG else match[0], text
        )
        text = text if self.keep_hosts else _ADDRESS.sub(self._named("address"), text)
        text = text if self.keep_paths else _PATH.sub(self._named("path"), text)
        return self._private.sub(self._named("name"), text) if self._private else text

    def _named(self, kind: str) -> Any:
        return lambda match: f"{kind}_{self.pseudonym(match[0])}"

    def pseudonym(self, text: str) -> str:
        """Eight letters that stand for a text in this run and mean nothing after it."""
        return hashlib.blake2b(
            text.encode("utf-8", "replace"), key=self._salt, digest_size=4
        ).hexdigest()


def owners(texts: Iterable[str]) -> set[str]:
    """User names, told by the paths they stand in."""
    return {found for text in texts for found in _OWNER.findall(text)}


def leaves(value: Any) -> list[str]:
    """Every text inside a JSON value, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [
            *(str(key) for key in value),
            *(text for each in value.values() for text in leaves(each)),
        ]
    return [text for each in value for text in leaves(each)] if isinstance(value, list) else []
