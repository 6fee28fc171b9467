"""Nouns of one trace: a range, a module, an op or a kernel whose name has all of the words.

Where two names fit, none is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePath

from foretrace.analyze.guess.evidence import Evidence
from foretrace.analyze.guess.lattice import MARK, Named, Noun
from foretrace.analyze.guess.lexicon import lexicon, listed
from foretrace.analyze.guess.reading import ClaimReader
from foretrace.analyze.guess.windows import modules
from foretrace.base.patterns import regex
from foretrace.model.cpu_ops import bare
from foretrace.model.module_calls import PREFIX

_SHORTEST = 3  # letters of a word that can be a part of a name
_PARTS = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_COMMON = (
    "kv cache kernel kernels op ops call calls step steps layer layers"
    " time gpu cpu the void at native"
)


def of_trace(evidence: Evidence, noun: Noun, *, modules_first: bool = False) -> ClaimReader:
    """The nouns of the language, and those of a trace."""

    @lru_cache(maxsize=1024)
    def read(text: str) -> Named | None:
        found = _fitting([text.lower()], modules(evidence)) if modules_first else []
        if len(found) == 1:
            return noun(f'module "{found[0]}"')
        head, _, last = text.rpartition(" ")
        alone = noun(head) if head and last.lower() in listed("after_noun") else None
        return noun(text) or alone or _named(text, evidence, noun)

    return ClaimReader(read, lambda word: _own(word, evidence))


def _own(word: str, evidence: Evidence) -> str:
    """The tag of a word that fits this trace: its card is a GPU, its name claims nothing."""
    card = re.split(r"\W", (evidence.trace.about.device or "").lower())
    if re.search(r"\d", word) and word in card:
        return "gpu"
    names = re.findall(r"[a-z]{4,}", PurePath(evidence.trace.path).name.lower())
    return "drop" if len(word) > _SHORTEST and word in names else ""


def _named(text: str, evidence: Evidence, noun: Noun) -> Named | None:
    parts = map(str.lower, _PARTS.findall(text.removesuffix(" kernels")))
    words = [word.removesuffix("s") if len(word) > _SHORTEST else word for word in parts]
    head, _, last = text.rpartition(" ")
    first, *behind = text.split()
    plain = listed("after_noun") | {"conversion", "conversions"}
    if literal := _literally(first if {*behind} <= plain else text, evidence):
        return noun(literal)
    if len(words) == 1 and ((words[0],) in lexicon() or words[0] in listed("harmless")):
        return None
    if not words or len("".join(words)) < _SHORTEST or {*words} <= {*_COMMON.split()}:
        return None
    regions = [name for name in evidence.trace.spans.region_groups() if name[:2] != "##"]
    host = evidence.trace.host
    ops = {host.names[at] for at in set(host.name[host.is_op].tolist())}
    known = [name for name in ops if bare(name).strip("_").lower().split("_") == words]
    for kind, names in (("region", regions), ("module", modules(evidence)), ("op", known)):
        found = _fitting(words, names)
        if len(found) == 1:
            return noun(f'{kind} "{found[0]}"')
        if kind == "region" and found and all(name.startswith(f"{text} ") for name in found):
            return noun(f'region "{text} *"')  # `capture bs=1`, `capture bs=8`
    if head and last in ("kernel", "kernels", "ones") and (part := _part_of_names(head, evidence)):
        return noun(f"kernel *{part}*")
    named = re.search(r"kernel|_|\d|[a-z][A-Z]| ", text)  # one plain word is rather no name
    return _kernels(words, evidence, noun) if named else None


def _part_of_names(word: str, evidence: Evidence) -> str:
    """A short word that is a part of kernel names, as it is written there: `Cijk kernels`."""
    known = (word.lower(),) in lexicon() or word.lower() in listed("harmless")
    if known or len(word) < _SHORTEST or word.lower() in listed("never_narrowing"):
        return ""
    names = (one.name for one in evidence.operations if one.kind == "kernel")
    there = {
        part for name in names for part in _PARTS.findall(name) if part.lower() == word.lower()
    }
    return there.pop() if len(there) == 1 else ""


def _literally(text: str, evidence: Evidence) -> str:
    """What has a name as it is written: a range, one module, kernels."""
    if " " in text or len(text) <= 2 * _SHORTEST or not MARK.search(text):
        return ""
    regions = [name for name in evidence.trace.spans.region_groups() if text in name]
    if len(regions) == 1:
        return f'region "{regions[0]}"'
    if f"{PREFIX}{text}" in evidence.trace.host.names:
        return f'module "{text}"'
    kernels = any(text in one.name for one in evidence.operations if one.kind == "kernel")
    return f"kernel *{text}*" if kernels else ""


def _fitting(words: list[str], names: Iterable[str]) -> list[str]:
    """The names that have these words one after the other; else in any order."""
    parts = {name: [part.lower() for part in _PARTS.findall(name)] for name in names}
    exact = [name for name, have in parts.items() if have == words]
    return exact or [name for name, have in parts.items() if {*words} <= {*have}]


def _kernels(words: list[str], evidence: Evidence, noun: Noun) -> Named | None:
    """Kernels whose names have the words: joined, they are long enough to be no chance."""
    if len("".join(words)) < 2 * _SHORTEST:
        return None
    part = re.compile("_?".join("".join(words)), re.IGNORECASE)
    names = (one.name for one in evidence.operations if one.kind == "kernel")
    there = {found[0] for name in names if (found := part.search(name))}
    return noun(f"kernel *{there.pop()}*") if len(there) == 1 else None
