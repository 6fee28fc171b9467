"""A claim in free words, read by its slots: of whom it speaks, what is measured, how it compares.

Each word is harmless (dropped), meaningful (a slot), or dangerous: one that has no place refuses
the claim. The lexicon of `language.toml` maps phrases to few tags. What says where a claim holds
(`per step`, `on the GPU`) is taken out, and the tags that are left must be one of the `shapes`. A
shape says the claim again in the words of the language; `&&` joins claims, `||` readings of one
claim that must agree.

Nouns are those of the language, and those of one trace (`trace_nouns`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from functools import lru_cache
from typing import Any

from foretrace.analyze.guess.claim_shapes import shapes
from foretrace.analyze.guess.lattice import MARK, NARROWED, Lattice, Named, Noun, ShapeMatch
from foretrace.analyze.guess.lexicon import Heard, listed
from foretrace.analyze.guess.words import PHASES, TRAITS, split
from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex

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


def _lacks_unit(words: list[str]) -> bool:
    """A number of a time is no count: `gemm time > 200`, `200 gemm time`."""
    bare = [word.replace(".", "").replace(",", "").isdecimal() for word in words]
    timed = bool({"time", "duration", "latency"} & {*words})
    return timed and sum(bare) == 1 and (bare[-1] or (len(words) == 3 and bare[0]))


class ClaimReader:
    """Reads claims with the nouns of the language, or with those of one trace too.

    `own` is the tag of a word that says nothing new of this trace: the name of its card.
    """

    def __init__(self, noun: Noun, own: Callable[[str], str] = lambda word: "") -> None:
        self.noun, self.own = noun, own
        self.said = lru_cache(maxsize=4096)(lambda text: _noun(text, noun))

    def lowered(self, text: str) -> Iterator[str]:
        """What a claim can mean, in the words of the language, the likeliest first."""
        if _lacks_unit(text.lower().split()):
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
        if _two_phases(nouns, where):
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


def _two_phases(nouns: list[str], where: str) -> bool:
    """Whether a claim is of forward and backward at once: `kernels in backward outnumber those in
    forward`, or `attention backward and forward`, where the second one is of attention too.
    """
    phases = [each for each in nouns if each.split()[-1] in PHASES]
    bare = [each for each in nouns if each.lower() in PHASES]
    of_part = any(" " in each and {*each.lower().split()} & {*PHASES} for each in nouns)
    return bool(phases and where in ("in forward", "in backward")) or bool(bare and of_part)


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
