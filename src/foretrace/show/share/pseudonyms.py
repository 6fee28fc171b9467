"""Text that leaves the machine: known words stay, and everything else gets a pseudonym.

People and programs choose the names in a trace: mostly `aten::mm`, sometimes `/home/alice/run.py`.
`vocabulary` knows the first kind. A pseudonym is the same wherever the same text was, and nobody
can turn it back: the secret that makes it is lost when the run ends. Text that its owner chose to
keep loses its keys, and addresses, paths and names of people unless they are kept too.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from foretrace.base.patterns import regex
from foretrace.base.private import hide_addresses, hide_keys, hide_paths, hide_random
from foretrace.show.share import vocabulary

_FOLDER = r"home|users|scratch|work|data|fsx|mnt|nfs|private"
_OWNER = regex(
    rf"(?i)[\\/](?:{_FOLDER})[\\/]{{1,2}}(?!(?:{_FOLDER})[\\/])"
    r"([\w.@-]{1,64}(?:(?: [\w.@-]{1,64}){1,3}(?=[\\/]))?)"
)
_NOBODY = regex(rf"(?i)(?:{_FOLDER})")  # the home folder of a container is called so
_SHORTEST = 3  # a shorter name would be found inside everything
_DISTINCT = 5  # a name as long as this is replaced even where other letters follow it
_LONGEST = 1 << 14  # the longest kernel name that was recorded has 5,123 letters
# Names that are cleaned word by word: what stands around a user's word says what ran.
_STRUCTURED = regex(r"\w+|[^:<]*(?:::|<|: ).*|(?:Optimizer\.|nn\.Module: ).*", re.DOTALL)
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # digits would look like a random token
_STEP, _STEPS = re.compile(r"(ProfilerStep#)(\d{7,15})"), 1_000_000
# What is no name of an op, even where names are kept; words of the vocabulary stay.
_IN_NAMES = (
    ("address", re.compile(r"\+?\(?\d(?:[ ()/._-]{0,2}\d){6,}+")),
    ("address", re.compile(
        rf"(?i)(?<![a-z])(?:{vocabulary.MACHINES})[a-z0-9_-]{{0,60}}\d[a-z0-9.-]*+"
    )),
    ("address", re.compile(r"(?i)(?<![\w-])[a-z0-9]{1,60}(?:-[a-z0-9]{1,60}){1,8}-\d++(?![\w-])")),
    ("address", re.compile(r"(?i)(?<![\w.-])(?:[a-z0-9_-]{1,60}\.){2,8}[a-z]{2}(?![\w.])")),
    ("key", re.compile(
        r"(?i)(?<![a-z0-9])(?=[a-z0-9]{0,60}(?:token|secret|passw|credential|apikey|pwd))(?!tokenizer)"
        r"[a-z0-9]++|(?<![a-z0-9])(?:key|pw)(?=[a-z]{0,60}\d)[a-z0-9]{4,60}"
    )),
)  # fmt: skip
# What a replaced text was, by the first rule that finds something in it.
_KINDS = (
    ("key", hide_keys),
    ("address", hide_addresses),
    ("path", hide_paths),
    ("key", hide_random),
)


class Pseudonyms:
    """Decides what a text may keep, and replaces the rest.

    `keep` has the words of `--keep`. `names` are those of hosts and people: a text that is kept
    loses them wherever a word begins with one. `left_out` counts what the copy does not hold.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        keep: frozenset[str] = frozenset(),
        salt: bytes | None = None,
    ) -> None:
        self.left_out = Counter[str]()
        self.keep = keep
        self._salt = salt or secrets.token_bytes(16)
        long = (name for name in names if len(name) >= _SHORTEST and not _NOBODY.fullmatch(name))
        own = {name for name in long if not vocabulary.keeps(name)}
        listed = "|".join(
            f"(?i:{re.escape(name)})" + ("(?![a-z])" if len(name) < _DISTINCT else "")
            for name in sorted(own, key=len, reverse=True)
        )
        self._names = re.compile(rf"(?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))(?:{listed})")
        self._has_names = bool(own) and "hosts" not in keep
        self._known: dict[str, str] = {}
        self._replaced: dict[str, set[str]] = {}

    def clean(self, text: str) -> str:
        """The name of an op, a kernel, a region or a file as others may see it."""
        if text not in self._known:
            self._known[text] = self._clean(text)
        return self._known[text]

    def _clean(self, text: str) -> str:
        if vocabulary.keeps(text):
            return text
        if "names" in self.keep:
            return self._own(self.kept(text))
        if step := _STEP.fullmatch(text):  # a copy without steps would say less
            return f"{step[1]}{int(step[2]) % _STEPS}"
        if len(text) <= _LONGEST and vocabulary.is_joined(text) and _STRUCTURED.fullmatch(text):
            return vocabulary.by_word(text, partial(self.pseudonym, "name"))
        return self.pseudonym(_kind(text), text)

    def _own(self, text: str) -> str:
        """A name that its owner keeps, without telephones, hosts and what is called a key."""
        for kind, pattern in _IN_NAMES:
            if kind == "key" or "hosts" not in self.keep:
                text = pattern.sub(partial(self._unless_known, kind), text)
        return text

    def _unless_known(self, kind: str, match: re.Match[str]) -> str:
        return match[0] if vocabulary.is_known(match[0], 0) else self.pseudonym(kind, match[0])

    def kept(self, text: str) -> str:
        """A text that its owner chose to keep, without what is still private in it."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        if len(text) > _LONGEST:
            return self.pseudonym("text", text)
        for kind, hide in _KINDS:
            if f"{kind}s" not in self.keep and (kind, "hosts" in self.keep) != ("address", True):
                text = hide(text, partial(self.pseudonym, kind))
        if not self._has_names:
            return text
        return self._names.sub(lambda found: self.pseudonym("name", found[0].lower()), text)

    def word(self, text: str, known: Callable[[str], str | None], kind: str = "word") -> str | None:
        """The text if it is known."""
        shown = known(text)
        if shown != text:
            self._replaced.setdefault(kind, set()).add(text)
        return shown

    @property
    def removed(self) -> dict[str, int]:
        """How many texts of each kind were replaced or left out."""
        replaced = {kind: len(texts) for kind, texts in self._replaced.items()}
        return dict(self.left_out + Counter(replaced))

    def pseudonym(self, kind: str, text: str) -> str:
        """Eight letters stand for a text in this run and mean nothing after it."""
        self._replaced.setdefault(kind, set()).add(text)
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, key=self._salt, digest_size=4).hexdigest()
        return f"{kind}_{digest.translate(_LETTERS)}"


def _kind(text: str) -> str:
    found = (kind for kind, hide in _KINDS if hide(text[:_LONGEST], lambda _: "") != text)
    return "text" if len(text) > _LONGEST else next(found, "name")


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
