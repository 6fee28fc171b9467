"""Text that leaves the machine: what a name may keep, and what is replaced by a pseudonym.

People and programs choose the names in a trace: mostly `aten::mm`, sometimes `/home/alice/run.py`.
Paths, addresses, host and user names, keys and random tokens are replaced by a pseudonym. It is the
same wherever the same text was, and nobody can turn it back: the secret that makes it is lost when
the run ends.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections import Counter
from collections.abc import Callable, Iterable

from foretrace.base.private import hide_addresses, hide_keys, hide_paths, hide_random
from foretrace.base.private.random_tokens import words

_FOLDER = r"home|users|scratch|work|data|fsx|mnt|nfs|private"
_OWNER = re.compile(
    rf"(?i)[\\/](?:{_FOLDER})[\\/]{{1,2}}([\w.@-]{{1,64}}(?:(?: [\w.@-]{{1,64}}){{1,3}}(?=[\\/]))?)"
)
# Names of accounts and machines that tell nothing, and words of kernel names that one may have.
_COMMON = words("""
    admin data home local localhost main private python python3 root runner shared tmp ubuntu user
    users work
    a100 ampere aten attention b200 backward blackwell cublas cuda cudnn cutlass flash forward fused
    gemm gpu h100 h200 hopper inductor kernel linear mi300 model nccl nvidia nvjet rocm step tensor
    torch train triton turing v100 vector volta
""")
_SHORTEST = 3  # a shorter name would be found inside everything
_DISTINCT = 5  # a name as long as this is replaced even where other letters follow it
_WORD = re.compile(r"(?<![^\W_])(?=[^\W_])|(?<=[a-z0-9])(?=[A-Z])")  # where a word begins
# The longest kernel name that was recorded has 5,123 letters.
_LONGEST = 1 << 14
_TOKEN = string.ascii_letters + string.digits + "_.+/=-"


class Pseudonyms:
    """Replaces private text, and the `names` of hosts or people wherever a word begins with one.

    `common` are words that do not tell who ran it (`max`, where the trace has `aten::max`).
    `left_out` counts what the copy does not hold, by kind.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        *,
        common: frozenset[str] = frozenset(),
        paths: bool = False,
        hosts: bool = False,
        salt: bytes | None = None,
    ) -> None:
        self.left_out = Counter[str]()
        self.keep_paths, self.keep_hosts = paths, hosts
        self._salt = salt or secrets.token_bytes(16)
        lowered = {name.lower() for name in names if _SHORTEST <= len(name) <= 255}
        self._names = frozenset() if hosts else frozenset(lowered - _COMMON - common)
        self._lengths = sorted({len(name) for name in self._names}, reverse=True)
        self._known: dict[str, str] = {}
        self._replaced: dict[str, set[str]] = {}

    def clean(self, text: str) -> str:
        """The text with everything private replaced."""
        if text not in self._known:
            self._known[text] = self._clean(text)
        return self._known[text]

    def word(
        self, text: str, vocabulary: Callable[[str], str | None], kind: str = "word"
    ) -> str | None:
        """The text if its vocabulary has it."""
        shown = vocabulary(text)
        if shown != text:
            self._replaced.setdefault(kind, set()).add(text)
        return shown

    @property
    def removed(self) -> dict[str, int]:
        """How many texts of each kind were replaced or left out."""
        replaced = {kind: len(texts) for kind, texts in self._replaced.items()}
        return dict(self.left_out + Counter(replaced))

    def _clean(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode("utf-8")
        if len(text) > _LONGEST:
            shown = text[:_LONGEST].rstrip(_TOKEN)  # no half of a key
            text = f"{shown} {self._pseudonym('text', text)}"
        text = hide_keys(text, self._replacing("key"))
        text = text if self.keep_hosts else hide_addresses(text, self._replacing("address"))
        text = text if self.keep_paths else hide_paths(text, self._replacing("path"))
        return self.without_names(hide_random(text, self._replacing("key")))

    def without_names(self, text: str) -> str:
        """The text without names of hosts and people, and otherwise as it is."""
        # one look at each beginning of a word, however many names there are
        parts, done = list[str](), 0
        for match in _WORD.finditer(text) if self._names else ():
            end = self._name_end(text, match.start())
            if end and match.start() >= done:
                parts += [
                    text[done : match.start()],
                    self._pseudonym("name", text[match.start() : end]),
                ]
                done = end
        return "".join((*parts, text[done:]))

    def _name_end(self, text: str, start: int) -> int:
        for length in self._lengths:
            end = start + length
            whole = length >= _DISTINCT or not text[end : end + 1].islower()
            if whole and text[start:end].lower() in self._names:
                return end
        return 0

    def _replacing(self, kind: str) -> Callable[[str], str]:
        return lambda text: self._pseudonym(kind, text)

    def _pseudonym(self, kind: str, text: str) -> str:
        """Eight letters stand for a text in this run and mean nothing after it."""
        self._replaced.setdefault(kind, set()).add(text)
        data = text.lower().encode() if kind == "name" else text.encode()
        return f"{kind}_{hashlib.blake2b(data, key=self._salt, digest_size=4).hexdigest()}"


def owners(texts: Iterable[str]) -> set[str]:
    """User names that paths contain, and their words."""
    found = {name for text in texts for name in _OWNER.findall(text)}
    return {word for name in found for word in (name, *name.split())}


def texts_in(value: object) -> list[str]:
    """Every text inside a JSON value, keys included."""
    found, waiting = list[str](), [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
    return found
