"""Text that leaves the machine: what a name may keep, and what is replaced by a pseudonym.

People and programs choose the names in a trace: mostly `aten::mm`, sometimes `/home/alice/run.py`.
Paths, addresses, host and user names, and what looks like a key are replaced by a pseudonym. It is
the same wherever the same text was, and nobody can turn it back: the secret that makes it is lost
when the run ends.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable

_PATH = re.compile(
    # /a/b, ~/a, C:\a, \\host\share
    r"(?<!\w)(?:[A-Za-z]:)?(?:\\\\|[\\/~])[\w.@~+-]+(?:[\\/]+[^\s\"'<>|:,;()\[\]{}]+)*"
    r"|(?<![\w/])[\w.@~+-]+(?:[\\/][\w.@~+ -]+)*[\\/][\w.@~+-]*\.[A-Za-z]\w{0,7}\b"  # a/b.py
    r"|\b[\w.-]+\.(?:py|pyc|ipynb|so|json|yaml|toml|sh|cpp|cu|h|pt|safetensors)\b"
)
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b"
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|ai|dev|edu|gov|local|internal|lan|corp|cloud)\b",
    re.IGNORECASE,
)
# Known prefixes of credentials, and text that is named as one.
_KEY = re.compile(
    r"\b(?:hf_|sk-|sk_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA|AIza|eyJ|wandb_|pypi-|npm_)"
    r"[\w.-]{6,}"
    r"|\b(?:password|passwd|secret|token|api[_-]?key|bearer)\b\s*[=: ]\s*\S+",
    re.IGNORECASE,
)
# Letters of both cases with digits in several places. Names of C++ have long words too
# (MainloopSm90TmaGmmaWarpSpecialized), with digits in one or two places.
_MIXED = re.compile(r"\b(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*[a-z])(?:[A-Za-z]*\d+){3,}[A-Za-z]*\b")
_LONG = 20
_OWNER = re.compile(
    r"[\\/](?:home|users|scratch|work|data|fsx|mnt|nfs|private)[\\/]+([\w.-]+)", re.IGNORECASE
)
_COMMON = {"python", "python3", "root", "main", "data", "home", "users", "user", "tmp", "work"}
_COMMON |= {"shared", "local"}
_SHORTEST = 3  # a shorter name would be found inside everything


class Pseudonyms:
    """Replaces private text, and the `names` of hosts or people wherever they are."""

    def __init__(
        self, names: Iterable[str] = (), *, paths: bool = False, hosts: bool = False
    ) -> None:
        self._salt = secrets.token_bytes(16)
        self.keep_paths, self.keep_hosts = paths, hosts
        telling = {name for name in names if len(name) >= _SHORTEST and name.lower() not in _COMMON}
        longest_first = sorted(telling, key=lambda name: (-len(name), name))
        pattern = "|".join(re.escape(name) for name in longest_first)
        self._names = re.compile(pattern, re.IGNORECASE) if telling and not hosts else None
        self._known: dict[str, str] = {}

    def clean(self, text: str) -> str:
        """The text with everything private replaced."""
        if text not in self._known:
            self._known[text] = self._clean(text)
        return self._known[text]

    def _clean(self, text: str) -> str:
        key = self._replacing("key")
        text = _KEY.sub(key, text)
        text = _MIXED.sub(lambda match: key(match) if len(match[0]) >= _LONG else match[0], text)
        text = text if self.keep_hosts else _ADDRESS.sub(self._replacing("address"), text)
        text = text if self.keep_paths else _PATH.sub(self._replacing("path"), text)
        return self._names.sub(self._replacing("name"), text) if self._names else text

    def _replacing(self, kind: str) -> Callable[[re.Match[str]], str]:
        """Eight letters stand for a text in this run and mean nothing after it."""

        def pseudonym(match: re.Match[str]) -> str:
            text = match[0].encode("utf-8", "replace")
            return f"{kind}_{hashlib.blake2b(text, key=self._salt, digest_size=4).hexdigest()}"

        return pseudonym


def owners(texts: Iterable[str]) -> set[str]:
    """User names that paths contain."""
    return {found for text in texts for found in _OWNER.findall(text)}


def texts_in(value: object) -> list[str]:
    """Every text inside a JSON value, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (str(key), *texts_in(each))]
    return [text for each in value for text in texts_in(each)] if isinstance(value, list) else []
