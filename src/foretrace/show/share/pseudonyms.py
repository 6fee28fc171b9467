"""Text that leaves the machine: words of PyTorch, CUDA and their libraries stay, and numbers;
everything else gets a pseudonym.

A name is cut at its punctuation, at `_` and where its letters change case; it is known if every
word is in `vocabulary.toml`. A pseudonym is the same wherever the same text was, and nobody can
turn it back: the secret that makes it is lost when the run ends.

Numbers and single letters are no words, and a telephone, a host or a token is made of them. The
name of a kernel that a family decodes may have many, a few in a row. Any other name has a few in
all, beside a word, and none that numbers a machine.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from importlib.resources import files

from foretrace.base.patterns import regex
from foretrace.base.private import hide_addresses, hide_keys, hide_paths, hide_random, words
from foretrace.names import families

_DIGITS = regex(r"\d+")
_PART = regex(r"\d+(?:[dD](?![a-z]))?|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VARIABLE = regex(r"[A-Za-z]\d{0,3}")
_TOKEN = regex(r"\w+")
# What joins the words of a name; neither a path nor an address has these alone.
_NAME = regex(r"(?:\w|[ :<>,.&*()\[\]{}#|=~]|->|!(?=\()|(?<!\w)-(?=\d))*+")
_NUMBERS = regex(r"\d[ .:]+\d")  # of an address or a telephone
_FORMS = regex(
    r"""ProfilerStep\#\d{1,6}
    |Torch-Compiled[ ]Region:[ ]\d{1,4}/\d{1,3}(?:_\d{1,2})?
    |execute_(?:\d{1,6}_)?context_\d{1,6}\(SUMS\)_generation_\d{1,6}\(SUMS\)  # of vLLM
    |step\[(?:DECODE|EXTEND|MIXED)[ ]bs=\d{1,6}(?:[ ]toks=\d{1,7})?  # of SGLang
        (?:[ ][cg](?:_s[qk]|_sqs[qk])?=\d{1,18}){0,10}(?:[ ]forward_id=\d{1,9})?\]
    |\#\#[ ]Call[ ]CompiledFxGraph[ ]f[a-z2-7]{51}[ ]\#\#  # a hash of the graph's code
    """.replace("SUMS", r"(?:\d{1,7}(?:_\d{1,7})?|sq\d{1,15}sk\d{1,15}sqsq\d{1,18}sqsk\d{1,18})"),
    re.VERBOSE,
)
MACHINES = "gpu|node|host|worker|server|rank|pod|job|rack"  # a number behind these is a host's
# Numbers of bits, of an architecture: they say nothing more.
_SIZED = regex(rf"(?i:sm\d{{2,3}}[af]?|(?!{MACHINES})[a-z]{{1,6}}(?:4|8|16|32|64|128))")
_MACHINE = regex(rf"(?i:{MACHINES})[_ ]?\d")
_CLUSTER = regex(r"(?<![A-Za-z0-9])[A-Za-z]\d{3}(?![A-Za-z0-9])")  # `n017`
_LIKE_A_HOST = regex(r"(?!c10$)[A-Za-z]\d{2,3}")  # as a whole identifier: `at::native::n017`
_TELEPHONE = regex(r"(?<![A-Za-z0-9])(?:\d[^A-Za-z\d]{0,4}+){7}")
_VERSION = regex(r"(?:THRUST|CUB|ROCPRIM)_\d{6}(?:_SM(?:_\d{3,4})+)?_NS")
_MOST_FREE, _MOST_IN_A_ROW = 4, 6  # letters and digits outside of words
# Families of names that anybody may give: a function of the user, a call, generated code.
_ANYBODYS = words("""
    unknown user_triton inductor_triton inductor_cpp memcpy_memset runtime_api driver_api xpu_api
    compile_rows
""")
# A mangled name, and the length of the next identifier in it: literals, types and references to
# earlier parts have digits too.
_MANGLED = regex(r"_Z[A-Z]{0,4}+\d\w*+(?:\.\w{1,16})*+")
_LENGTH = regex(r"(?:L[a-z]n?\d++|E\d++E|DF\d++|[ST]\d*+_|\D)*+(\d{1,4})")
_LONGEST_NUMBER = 6
_TO_THE_END = str(2**63 - 1)  # where a slice of a graph ends
_CUTE = "kernel_cutlass_"  # its names have all strides of a tensor in one number
_LONGEST_STRIDES = 13


@cache
def _table(name: str) -> frozenset[str]:
    text = files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8")
    return frozenset(tomllib.loads(text)[name].split())


@lru_cache(maxsize=1 << 16)
def is_known(word: str, digits: int = _LONGEST_NUMBER, sentence: bool = False) -> bool:
    """Whether a word between two `_` is known; `digits` is the length of the longest number."""
    if not digits and free(word):
        return False
    if digits and any(len(number) > digits for number in _DIGITS.findall(word)):
        return word == _TO_THE_END
    if _VARIABLE.fullmatch(word) or _shape(word) in _table("pieces"):
        return True
    parts = _PART.findall(word)
    behind = digits if len(parts) == 1 or digits == _LONGEST_STRIDES else _MOST_FREE
    tables = [_table("words"), *([_table("sentences")] if sentence else [])]
    return "".join(parts) == word and all(
        len(part.rstrip("dD")) <= behind
        if part[0].isdigit()
        else any(part.lower() in table for table in tables)
        for part in parts
    )


@lru_cache(maxsize=1 << 16)
def free(word: str) -> int:
    """How many letters and digits of it are in no word: of a number, a variable, `gpu17`."""
    if _SIZED.fullmatch(word) or (_shape(word) in _table("pieces") and not word.isdigit()):
        return 0
    if _VARIABLE.fullmatch(word):
        return len(word)
    return sum(map(len, _DIGITS.findall(word)))


def _shape(word: str) -> str:
    return _DIGITS.sub("0", word)


def is_joined(text: str) -> bool:
    """Whether the words of a text are joined as those of a name are."""
    return _NAME.fullmatch(text) is not None and not _NUMBERS.search(text)


def keeps(name: str) -> bool:
    """Whether the name of an op, a kernel or a region has nothing of its user in it."""
    known = is_joined(name) and by_word(name, lambda word: "") == name
    return known or _FORMS.fullmatch(name) is not None


def by_word(
    text: str, replace: Callable[[str], str], digits: int = 0, sentence: bool = False
) -> str:
    """The text with every word replaced that is not known."""
    if _MANGLED.fullmatch(text):
        return "".join(_mangled(text, replace))
    return _by_word(text, replace, digits or _most_digits(text), sentence, is_code=digits > 0)


def _by_word(
    text: str,
    replace: Callable[[str], str],
    most: int,
    sentence: bool = False,
    is_code: bool = False,
) -> str:
    def shown(match: re.Match[str]) -> str:
        if _VERSION.fullmatch(match[0]):
            return match[0]
        if not is_code and _LIKE_A_HOST.fullmatch(match[0]) and free(match[0]):
            return replace(match[0])
        found = match[0].split("_")
        known = [is_known(word, most, sentence) for word in found]
        for start, end in _rows(found):
            known[start:end] = [False] * (end - start)
        pairs = zip(found, known, strict=True)
        return "_".join(word if stays else replace(word) for word, stays in pairs)

    return _TOKEN.sub(shown, text)


def _most_digits(name: str) -> int:
    """How long a number of this name may be; 0 where it may have no number and no variable."""
    if _MACHINE.search(name):
        return 0
    if families.decode(name).family not in _ANYBODYS:
        if "<" not in name and _TELEPHONE.search(_VERSION.sub("", name)):
            return 0
        return _LONGEST_STRIDES if name.startswith(_CUTE) else _LONGEST_NUMBER
    found = [word for token in _TOKEN.findall(name) for word in token.split("_") if word]
    few = sum(map(free, found)) <= _MOST_FREE and not _CLUSTER.search(name)
    return _MOST_FREE if few and any(free(word) < len(word) for word in found) else 0


def _rows(found: list[str]) -> Iterator[tuple[int, int]]:
    """Where too many letters and digits stand in a row outside of words."""
    start = length = 0
    for at, word in enumerate([*found, ""]):
        if word and free(word) == len(word):
            length += len(word)
            continue
        if length > _MOST_IN_A_ROW and at > start + 1:  # one number has a limit of its own
            yield start, at
        start, length = at + 1, 0


def _mangled(name: str, replace: Callable[[str], str]) -> Iterator[str]:
    """The parts of a mangled name; an identifier that is not known has another length."""
    at, most = 0, _most_digits(name)
    while length := _LENGTH.match(name, at or 2):
        end = length.end() + int(length[1])
        identifier = name[length.end() : end]
        shown = _by_word(identifier, replace, most)
        same = shown == identifier or identifier.startswith("_GLOBAL__N_")
        yield name[at:end] if same else f"{name[at : length.start(1)]}{len(shown)}{shown}"
        at = end
    yield name[at:]


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
        rf"(?i)(?<![a-z])(?:{MACHINES})[a-z0-9_-]{{0,60}}\d[a-z0-9.-]*+"
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
        own = {name for name in long if not keeps(name)}
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
        if keeps(text):
            return text
        if "names" in self.keep:
            return self._own(self.kept(text))
        if step := _STEP.fullmatch(text):  # a copy without steps would say less
            return f"{step[1]}{int(step[2]) % _STEPS}"
        if len(text) <= _LONGEST and is_joined(text) and _STRUCTURED.fullmatch(text):
            return by_word(text, partial(self.pseudonym, "name"))
        return self.pseudonym(_kind(text), text)

    def _own(self, text: str) -> str:
        """A name that its owner keeps, without telephones, hosts and what is called a key."""
        for kind, pattern in _IN_NAMES:
            if kind == "key" or "hosts" not in self.keep:
                text = pattern.sub(partial(self._unless_known, kind), text)
        return text

    def _unless_known(self, kind: str, match: re.Match[str]) -> str:
        return match[0] if is_known(match[0], 0) else self.pseudonym(kind, match[0])

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
