"""What a shared copy may say: the words of PyTorch, CUDA and their libraries, and numbers.

A name is cut at its punctuation, at `_` and where its letters change case; it is known if every
word is. A word that is not in `vocabulary.toml` is somebody's own, and the copy does not have it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.resources import files

_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"\d+(?:[dD](?![a-z]))?|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VARIABLE = re.compile(r"[A-Za-z]\d{0,3}")
_TOKEN = re.compile(r"\w+")
# What joins the words of a name; neither a path nor an address has these alone.
_NAME = re.compile(r"(?:\w|[ :<>,.&*()\[\]{}#|=~]|->|!(?=\()|(?<!\w)-(?=\d))*+")
_NUMBERS = re.compile(r"\d[ .:]+\d")  # of an address or a telephone
_FORMS = re.compile(
    r"""ProfilerStep\#\d{1,9}
    |Torch-Compiled[ ]Region:[ ]\d{1,6}/\d{1,6}(?:_\d{1,6})?
    |\#\#[ ]Call[ ]CompiledFxGraph[ ]f[a-z2-7]{51}[ ]\#\#  # a hash of the graph's code
    """,
    re.VERBOSE,
)
# A mangled name, and the length of the next identifier in it: literals, types and references to
# earlier parts have digits too.
_MANGLED = re.compile(r"_Z[A-Z]{0,4}+\d\w*+(?:\.\w{1,16})*+")
_LENGTH = re.compile(r"(?:L[a-z]n?\d++|E\d++E|DF\d++|[ST]\d*+_|\D)*+(\d{1,4})")
_LONGEST_NUMBER = 6
_TO_THE_END = str(2**63 - 1)  # where a slice of a graph ends
_CUTE = "kernel_cutlass_"  # its names have all strides of a tensor in one number
_LONGEST_STRIDES = 12


@cache
def _table(name: str) -> frozenset[str]:
    text = files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8")
    return frozenset(tomllib.loads(text)[name].split())


@lru_cache(maxsize=1 << 16)
def is_known(word: str, digits: int = _LONGEST_NUMBER, sentence: bool = False) -> bool:
    """Whether a word between two `_` is known; `digits` is the length of the longest number."""
    if any(len(number) > digits for number in _DIGITS.findall(word)):
        return word == _TO_THE_END
    if _VARIABLE.fullmatch(word) or _DIGITS.sub("0", word) in _table("pieces"):
        return True
    parts = _PART.findall(word)
    return "".join(parts) == word and all(
        part[0].isdigit() or part.lower() in _table("words") or _is_said(part, sentence)
        for part in parts
    )


def _is_said(part: str, sentence: bool) -> bool:
    return sentence and part.lower() in _table("sentences")


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
    most = digits or (_LONGEST_STRIDES if text.startswith(_CUTE) else _LONGEST_NUMBER)

    def shown(match: re.Match[str]) -> str:
        words = match[0].split("_")
        return "_".join(word if is_known(word, most, sentence) else replace(word) for word in words)

    return _TOKEN.sub(shown, text)


def _mangled(name: str, replace: Callable[[str], str]) -> Iterator[str]:
    """The parts of a mangled name; an identifier that is not known has another length."""
    at = 0
    while length := _LENGTH.match(name, at or 2):
        end = length.end() + int(length[1])
        identifier = name[length.end() : end]
        shown = by_word(identifier, replace)
        same = shown == identifier or identifier.startswith("_GLOBAL__N_")
        yield name[at:end] if same else f"{name[at : length.start(1)]}{len(shown)}{shown}"
        at = end
    yield name[at:]
