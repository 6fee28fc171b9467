"""A claim in free words, read by its slots: of whom it speaks, what is measured, how it compares.

Each word is harmless (dropped), meaningful (a slot), or dangerous: one that has no place refuses
the claim. The lexicon of `language.toml` maps phrases to few tags. What says where a claim holds
(`per step`, `on the GPU`) is taken out, and the tags that are left must be one of the `shapes`. A
shape says the claim again in the words of the language; `&&` joins claims, `||` readings of one
claim that must agree.

Nouns are those of the language, and those of one trace: a range, a module,
an op or a kernel whose name has all of the words. Where two names fit, none is meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache, lru_cache, partial
from pathlib import PurePath
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.check.evidence import Evidence
from foretrace.check.lattice import (
    MARK,
    NARROWED,
    ClaimShape,
    Item,
    Lattice,
    Named,
    Noun,
    ShapeMatch,
)
from foretrace.check.lexicon import Heard, lexicon, listed
from foretrace.check.windows import modules
from foretrace.check.words import (
    CALL,
    COPIES,
    OPTIMIZERS,
    PHASES,
    TRAITS,
    Selector,
    Trait,
    language,
    split,
)
from foretrace.trace.cpu_ops import bare
from foretrace.trace.module_calls import PREFIX


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


SUBJECTS = frozenset(
    {"noun", "n", "no", "who", "gpu", "cpu", "there", "every", "nothing", "everything"}
)
_NOUNS = ("a", "b", "c")  # slots of a shape that are selectors
_ONES = regex(r"(?:kernels|calls|launches|copies|memcpys)$")
_WAITS = regex(r"(?i)\b(?:wait|block|stall|idl)")
_FOR_GPU = regex(r"(?i)\b(?:for|on) (?:the )?(?:gpu|device|card)\b")
_GPU = regex(r"\bgpu (?:idle|busy)\b")
_BACKWARD_OF = regex(r"(forward|backward)(?: pass)? of ([^,]+)")


def _noun(text: str, noun: Noun) -> Named | None:
    """A noun, also with its words in another order: `elementwise ATen kernels`, `log softmax`."""
    if of := _BACKWARD_OF.fullmatch(text):
        text = f"{of[2]} {of[1]}"
    written, text = text, text.removesuffix(" forward and backward")
    text = "kernel" if text.lower() in ("kernels", "gpu kernels") else text
    if text.lower().endswith(" count") or text.lower().startswith("calls aten::"):
        return None
    traits_first = sorted(text.split(), key=lambda word: word.lower() not in TRAITS)
    found = noun(text) or noun(" ".join(traits_first))
    found = None if found and found.selector.word in listed("no_nouns") else found
    head, _, last = text.rpartition(" ")
    of_calls = found is None and last in ("ops", "calls") and head not in listed("no_nouns")
    called = noun(head) if of_calls else None
    if called and called.selector.word:
        found = noun(f"aten::{head}")
    if found is None and " " in text and " and " not in text:
        joined = text.lower().replace(" ", "_")
        found = noun(joined)
        found = found if found and found.selector.word == joined else None
    called_so = last == "forward" and MARK.search(head)  # `LlamaAttention forward`
    if found is None and called_so and (module := _noun(head, noun)):
        found = module if module.selector.kind == "module" else None
    if found is None and head and last.lower() in listed("after_noun"):
        found = _noun(head, noun)
        if found and found.selector.kind == "module" and last.lower() == "layers":
            return None  # the layers of an encoder are not the encoder
    # the word of an op means its forward alone
    return None if found is None or (found.selector.word and written != text) else found


class ClaimReader:
    """Reads claims with the nouns of the language, or with those of one trace too.

    `own` is the tag of a word that says nothing new of this trace: the name of its card.
    """

    def __init__(self, noun: Noun, own: Callable[[str], str] = lambda word: "") -> None:
        self.noun, self.own = noun, own
        self.said = lru_cache(maxsize=4096)(lambda text: _noun(text, noun))

    def lowered(self, text: str) -> Iterator[str]:
        """What a claim can mean, in the words of the language, the likeliest first."""
        words = text.lower().split()
        bare = [word.replace(".", "").replace(",", "").isdecimal() for word in words]
        timed = bool({"time", "duration", "latency"} & {*words})
        if timed and sum(bare) == 1 and (bare[-1] or (len(words) == 3 and bare[0])):
            return
        try:
            tokens = [token for token in split(text) if token.key not in listed("articles")]
        except UsageError:
            return
        lattice = Lattice(tokens, self.said, self.own)
        found = sorted(
            (
                (match.chunks, order, match, shape.said)
                for order, shape in enumerate(shapes())
                # the tags that the shape cannot do without are there
                if all(item.optional or item.tags & lattice.tags for item in shape.pattern)
                for match in lattice.matches(shape, ShapeMatch(0, 0, {}))
            ),
            key=lambda each: each[:2],
        )
        claims = (self._said(said, match) for *_, match, said in found)
        waiting = _WAITS.search(text)  # who waits for the GPU is no GPU
        waits = waiting and _FOR_GPU.search(text, waiting.end())
        yield from dict.fromkeys(
            claim for claim in claims if claim and not (waits and _GPU.search(claim))
        )

    def begins(self, text: str, wanted: Set[str]) -> bool:
        """Whether the first words of a claim can have one of these tags."""
        tokens = [token for token in split(text) if token.key not in listed("articles")]
        first = Lattice(tokens, self.said, self.own).at[0] if tokens else {}
        return any(wanted & tags.keys() for tags in first.values())

    def _said(self, template: str, match: ShapeMatch) -> str:
        """The claims of a shape, each with its scope; empty where a word has no place."""
        args, where, clock = match.args, match.where, match.clock
        who = args.get("who", "")
        if who and where not in ("", "everywhere", who) and who != "per pass":
            return ""
        if template.startswith("@trace"):  # of all steps together
            template, who = template.removeprefix("@trace "), ""
        if template.startswith("@here") and where in ("", "everywhere"):
            return ""  # a noun alone says nothing, but `one D2H copy every step` does
        template = template.removeprefix("@here ")
        nouns = [str(args[name]) for name in _NOUNS if name in args]
        marked = {name: NARROWED.findall(v) for name, v in args.items() if isinstance(v, str)}
        if any(by for name, by in marked.items() if name not in ("a", "counts")):
            return ""  # only of what is measured it is known what less of it means
        narrowed = [by for found in marked.values() for by in found]
        nouns = [NARROWED.sub("", each) for each in nouns]
        if not all(map(str.strip, nouns)):
            return ""
        phases = [each for each in nouns if each.split()[-1] in PHASES]
        bare = [each for each in nouns if each.lower() in PHASES]
        of_part = any(" " in each and {*each.lower().split()} & {*PHASES} for each in nouns)
        if (phases and where in ("in forward", "in backward")) or (bare and of_part):
            return ""
        on_gpu = all((found := self.noun(each)) and found.selector.on_gpu for each in nouns)
        timed = {"{clock}", "{on}"} & {*re.findall(r"\{\w+\}", template)}
        if clock and not timed and not (clock == "gpu" and on_gpu):
            return ""
        if template == "{a} takes {dur}" and args["dur"].lasting and nouns[0].endswith("s"):
            each = "{a} takes {dur} each"  # `gelu kernels are shorter than 5 us`
            template = each if _ONES.search(nouns[0]) else f"{each} || {template}"
        total = " in total" if where == "everywhere" and template.endswith("takes {dur}") else ""
        whole = args.get("whole", "time")
        if not clock and whole not in ("time", "step"):
            clock = "cpu" if whole == "cpu time" else "gpu"
        of_step = args.get("whole") == "step" and template == "gpu {idle} {pct}"
        if not where and (of_step or (whole == "cpu time" and "{whole}" in template)):
            where = "per pass"  # `idle for half of each step`
        kinds = {found.selector.kind for each in nouns if (found := self.noun(each))}
        if "op" in kinds and whole == "time" and template == "{a} takes {pct} of {whole}":
            template = "{a} takes {pct} of gpu time || {a} takes {pct} of step"
        clocks = [f" {clock}"] if clock else [""]
        if any(each.startswith(("region", "module")) for each in nouns) and "{clock}" in template:
            clocks = clocks if clock else [" gpu", " cpu"]  # it takes time on both
        filled = [
            _filled(
                template + total,
                args | {"clock": each, "on": each.strip() or "step", "who": "", "whole": whole},
            )
            for each in clocks
        ]
        said = _scoped(" || ".join(filled), who if where in ("", "everywhere") else where)
        return NARROWED.sub("", said) + (f" ## {' '.join(narrowed)}" if narrowed else "")


def _scoped(claims: str, where: str) -> str:
    """Each reading of each claim, with the scope where it has none of its own."""
    parts = re.split(r"( && | \|\| )", claims)
    named = [
        part
        if ": " in part or not part.strip("&| ")
        else f"{'!' * part.startswith('!')}{where}: {part.removeprefix('!')}"
        for part in parts
    ]
    return "".join(named) if where else claims


def _filled(template: str, args: dict[str, Any]) -> str:
    """The template with each quantity; one that lies between two ends makes two claims."""
    heard = {name: v for name, v in args.items() if isinstance(v, Heard)}
    for name, v in heard.items():
        if "|" in v.text:
            ends = (Heard(v.dimension, text) for text in v.text.split("|"))
            return " || ".join(_filled(template, args | {name: end}) for end in ends)
        if v.upper or (v.also and "&&" not in template):
            texts, joint = ((v.text, v.upper), " && ") if v.upper else ((v.text, v.also), " || ")
            ends = (Heard(v.dimension, text) for text in texts)
            return joint.join(_filled(template, args | {name: end}) for end in ends)
    said = {name: v.text if isinstance(v, Heard) else v for name, v in args.items()}
    filled = template.format_map(defaultdict(str, said))  # what was left out is empty
    return re.sub(r"\s+", " ", filled).strip()


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
