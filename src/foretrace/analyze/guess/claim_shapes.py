"""The shapes that a claim in free words can have, and what their slots take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from foretrace.analyze.guess.lattice import NARROWED, ClaimShape, Item, Lattice, Named
from foretrace.analyze.guess.lexicon import Heard
from foretrace.analyze.guess.words import (
    CALL,
    COPIES,
    OPTIMIZERS,
    PHASES,
    TRAITS,
    Selector,
    Trait,
    language,
)


def _reads(
    tags: Mapping[str, str], fits: Callable[[Any], Any] | None = None
) -> Callable[[Lattice, int], Iterator[tuple[Any, int, int]]]:
    """Reads one chunk that can have one of these tags: what is said of it, or what `fits` makes of
    its value unless that is None.
    """

    def read(lattice: Lattice, place: int) -> Iterator[tuple[Any, int, int]]:
        for size, found in lattice.at[place].items() if place < len(lattice.at) else ():
            for tag, said in tags.items():
                value = None if tag not in found else fits(found[tag]) if fits else said
                if value is not None:
                    narrowed = isinstance(value, str) and "‹" in value  # read so at last
                    yield value, place + size, 1 + 10 * narrowed
                    break

    return read


def _trait(named: Named) -> str | None:
    """What kernels can be: `bf16`, `nvjet kernels`."""
    found = named.selector
    more = found.name or found.word or found.under or not found.traits
    more = more or any(each.kind == "group" for each in found.traits)  # `not one rmsnorm`
    if found.kind == "kernel" and found.name and not found.traits:
        return named.said  # `multi_tensor_apply kernels do the SGD update`
    said = re.sub(r" kernels?$", "", named.said)
    said = said if said.lower() in TRAITS else said.removesuffix("s")
    return said if not more and found.kind in ("kernel", "memcpy") else None


def _maker(named: Named) -> str | None:
    """Who makes kernels: `cuDNN does the attention`."""
    makes = all(each.kind in ("family", "core") for each in named.selector.traits)
    return _trait(named) if makes else None


def _place(named: Named) -> str | None:
    """A range, a module or an op: what is launched inside it is meant."""
    name, kind = named.selector.name, named.selector.kind
    return f'"{name}"' if kind in ("region", "module", "op") and name in named.said else None


def _phase(named: Named) -> str | None:
    return said if (said := named.said.lower()) in PHASES else None


def _any_of(*words: str) -> Callable[[str], str | None]:
    return lambda whole: whole if whole in words else None


def _noun_that(fits: Callable[[Selector], bool]) -> Callable[[Named], str | None]:
    return lambda named: named.said if fits(named.selector) else None


def _counts(lattice: Lattice, place: int) -> Iterator[tuple[str, int, int]]:
    """`4 attention kernels and 26 gemms`: several counts, each a claim."""
    for amount, at, _ in _reads({"n": ""}, lambda heard: heard)(lattice, place):
        for said, after, _ in _reads({"noun": ""}, partial(_counted, amount))(lattice, at):
            yield said, after, 2
            for _, joint, _ in _reads(_JOINTS)(lattice, after):
                second = [
                    (joint, 3),
                    *((end, 4) for _, end, _ in _reads({"and": "and"})(lattice, joint)),
                ]
                for begin, chunks in second:
                    for more, end, own in _counts(lattice, begin):
                        yield f"{said} && {more}", end, chunks + own


def _countable(named: Named) -> bool:
    """Not `stream 7`, which is one of them, nor `3 forward`, which is of what was said before."""
    numbered = named.selector.kind in ("stream", "step")
    return not numbered and NARROWED.sub("", named.said) not in PHASES


def _counted(amount: Heard, named: Named) -> str | None:
    if NARROWED.sub("", named.said) in PHASES:
        return None
    # of modules, those that there are; each is called in every step
    what = f"distinct {named.said}" if named.selector.kind == "module" else named.said
    ends = (each.split("|") for each in (amount.text, amount.upper) if each)
    return " && ".join(" || ".join(f"{end} {what}" for end in each) for each in ends)


_JOINTS = {",": ",", "and": "and"}
_ONE = ("1", "exactly 1", "at least 1")

# slot -> the tag that it reads, and what it makes of the value
_SLOTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "noun": ("noun", _noun_that(lambda found: True)),
    "op": ("noun", _noun_that(lambda found: bool(found.word))),
    "phase": ("noun", _phase),
    "host": ("noun", _noun_that(lambda found: not found.on_gpu)),
    "waited": ("noun", _noun_that(lambda found: found.kind in ("call", "sync", "op", "launch"))),
    "gpu": ("noun", _noun_that(lambda found: found.on_gpu)),
    "hostop": ("noun", lambda named: named.selector.name if named.selector.kind == "op" else None),
    "streams": ("noun", _noun_that(lambda found: found.kind == "stream")),
    "counted": ("noun", lambda named: named.said if _countable(named) else None),
    "layer": ("noun", _noun_that(lambda found: [each.kind for each in found.traits] == ["group"])),
    "work": ("noun", _noun_that(lambda found: any(each.kind != "dtype" for each in found.traits))),
    "copies": ("noun", _noun_that(lambda found: found.kind == "memcpy" or found.text in COPIES)),
    "call": ("noun", _noun_that(lambda found: bool(CALL.fullmatch(found.name)))),
    "trait": ("noun", _trait),
    "maker": ("noun", _maker),
    "place": ("noun", _place),
    "dtype": ("noun", _noun_that(lambda found: [each.kind for each in found.traits] == ["dtype"])),
    "step": ("noun", _noun_that(lambda found: found.kind == "step")),
    "bare": ("rat", lambda heard: heard if heard.text[0].isdigit() else None),
    "comms": ("noun", _noun_that(lambda found: found.text == "comms" or found.is_collective)),
    "loader": ("noun", _noun_that(lambda found: found.name.startswith("enumerate(DataLoader)"))),
    "compile": ("noun", _noun_that(lambda found: found.text == "torch.compile")),
    "graphs": ("noun", _noun_that(lambda found: "GraphLaunch" in found.name)),
    "conversions": ("noun", _noun_that(lambda found: Trait("layout", "true") in found.traits)),
    "optimizer": ("noun", lambda named: named.said if named.said.lower() in OPTIMIZERS else None),
    "number": ("n", lambda heard: heard.text if heard.text.isdecimal() else None),
    "single": ("n", lambda heard: heard if heard.text in _ONE and "ex" not in heard.text else None),
    "one": ("n", lambda heard: heard if heard.text in _ONE else None),
    "part": ("pct", lambda heard: heard if heard.text != "more than 95%" else None),
    "fold": ("rat", lambda heard: heard if heard.text.endswith("x") else None),
    "digits": ("pct", lambda heard: heard if re.search(r"\d", heard.text) else None),
    "callname": ("name", lambda name: name if CALL.fullmatch(name) else None),
    "plain": ("whole", _any_of("time", "step")),
    "ongpu": ("whole", _any_of("time", "gpu time", "kernel time")),
    "clocked": ("whole", _any_of("gpu time", "kernel time", "cpu time")),
    "cputime": ("whole", _any_of("cpu time")),
}


@cache
def shapes() -> tuple[ClaimShape, ...]:
    """The shapes of `language.toml`, in the order in which they are tried."""
    return tuple(map(_shape, filter(None, language("shapes").splitlines())))


def _shape(row: str) -> ClaimShape:
    """`{a:noun} take {pct} => …`; free: `take is ~ {a:noun} {pct} => …`."""
    written, _, said = row.partition(" => ")
    glue, free, pattern = written.rpartition("~ ")
    return ClaimShape(tuple(map(_item, pattern.split())), said, bool(free), frozenset(glue.split()))


def _item(word: str) -> Item:
    """`take|is`, `[of]`, `more=>|less=<`, `{a:noun}`, `[{whole}]`: a slot without a name has that
    of its tag.
    """
    optional, word = word.startswith("["), word.strip("[]")
    if not word.startswith("{"):
        pairs = (part.partition("=") for part in word.split("|"))
        tags = {tag: said or tag for tag, _, said in pairs}
        first = next(iter(tags))
        name = "" if first in ("who", "whole") else first
        return Item(name, first, frozenset(tags), optional, _reads(tags))
    name, _, slot = word.strip("{}").partition(":")
    slot = slot or name
    if slot == "counts":
        return Item(name, slot, frozenset("n"), optional, _counts)
    tag, fits = _SLOTS.get(slot, (slot, lambda value: value))
    return Item(name, slot, frozenset([tag]), optional, _reads({tag: ""}, fits))
