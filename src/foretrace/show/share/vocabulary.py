"""What a shared copy may say: the words of PyTorch, CUDA and their libraries, and numbers.

A name is cut at its punctuation, at `_` and where its letters change case; it is known if every
word is. A word that is not in `vocabulary.toml` is somebody's own, and the copy does not have it.

Numbers and single letters are no words, and a telephone, a host or a token is made of them. The
name of a kernel that a family decodes may have many, a few in a row. Any other name has a few in
all, beside a word, and none that numbers a machine.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.resources import files

from foretrace.base.patterns import regex
from foretrace.base.private.keys import words
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
