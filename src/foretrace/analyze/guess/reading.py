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
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from foretrace.analyze.guess.grammar import LONGEST_PHRASE
from foretrace.analyze.guess.lexicon import (
    READERS,
    TAGS,
    Heard,
    Tags,
    Tokens,
    lexicon,
    listed,
    quantity,
)
from foretrace.analyze.guess.words import (
    CALL,
    COPIES,
    OPTIMIZERS,
    PHASES,
    TRAITS,
    ParseFailure,
    Selector,
    Trait,
    key_at,
    language,
    split,
)
from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex

_LONGEST_NOUN = 7  # words
VERBS = frozenset(
    {"is", "have", "take", "use", "called", "used", "runs-on", "more", "less", "dominate"}
)
SUBJECTS = frozenset(
    {"noun", "n", "no", "who", "gpu", "cpu", "there", "every", "nothing", "everything"}
)
_NARROWED = regex("‹([^›]*)›")
_PREPOSITIONS = ("in", "for", "of", "during", "throughout", "over", "across", "within")
_NOUNS_EACH = 2  # nouns that begin with one word, the longest
_NOUNS = ("a", "b", "c")  # slots of a shape that are selectors


class Named(NamedTuple):
    """A noun: how the language says it, and what it selects."""

    said: str
    selector: Selector


Noun = Callable[[str], Named | None]


MARK = regex(r"_|::|[a-z][A-Z]|\*")  # a name has one, a word none
_ONES = regex(r"(?:kernels|calls|launches|copies|memcpys)$")
_FOR_GPU = regex(
    r"(?i)\b(?:wait|block|stall|idl)\w*\b.*\b(?:for|on) (?:the )?(?:gpu|device|card)\b"
)
_GPU = regex(r"\bgpu (?:idle|busy)\b")
_CARD = regex(r"amd|nvidia|[abgh]{1,2}[1-3]00|mi[1-3]\d\d[acx]?|v100|p100|a10g?|t4|l40?s?")
_BACKWARD_OF = regex(r"(forward|backward)(?: pass)? of ([^,]+)")


def _noun(text: str, noun: Noun) -> Named | None:
    """A noun, also with its words in another order: `elementwise ATen kernels`, `log softmax`."""
    if of := _BACKWARD_OF.fullmatch(text):
        text = f"{of[2]} {of[1]}"
    written, text = text, text.removesuffix(" forward and backward")
    text = "kernel" if text.lower() in ("kernels", "gpu kernels") else text
    if text.lower().endswith(" count"):
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


class ShapeMatch(NamedTuple):
    """How far a shape was matched: the place, the chunks, what was read, the scope, the clock."""

    place: int
    chunks: int
    args: dict[str, Any]
    where: str = ""
    clock: str = ""


def _stem(verb: str) -> str:
    """`leaves` -> leav, `misses` -> miss."""
    return verb.removesuffix("s").removesuffix("e")


class Lattice:
    """The tokens of a claim, and the chunks that can begin at each: how many words -> tags."""

    def __init__(self, tokens: Tokens, reader: ClaimReader) -> None:
        self.tokens, self.reader = tokens, reader
        self.at = [self._chunks(place) for place in range(len(tokens))]
        self.tags = {tag for chunks in self.at for tags in chunks.values() for tag in tags}

    def _chunks(self, place: int) -> dict[int, Tags]:
        tokens, found, nouns = self.tokens, defaultdict[int, Tags](dict), 0
        for size in range(min(LONGEST_PHRASE, len(tokens) - place), 0, -1):
            keys = tuple(token.key for token in tokens[place : place + size])
            if keys in lexicon():
                found[size] |= lexicon()[keys]
        for size in range(min(_LONGEST_NOUN, len(tokens) - place), 0, -1):
            text = " ".join(token.text for token in tokens[place : place + size])
            if named := self.reader.said(text):
                found[size]["noun"] = named
                nouns += 1
            if nouns == _NOUNS_EACH:
                break
        for tag, read in READERS.items():
            with suppress(ParseFailure):
                value, after = read(tokens, place)
                found[after - place][tag or TAGS.get(value.dimension, "amount")] = value
        for size, name in self._places(place):
            found[size].setdefault("scope", f'in "{name}"')
        for skipped in self._narrowing(place, bool(found)):
            for size in range(min(_LONGEST_NOUN, len(tokens) - place - skipped), 0, -1):
                text = " ".join(token.text for token in tokens[place + skipped :][:size])
                if named := self.reader.said(text):
                    by = " ".join(token.text for token in tokens[place : place + skipped])
                    narrowed = named._replace(said=f"{named.said}‹{by}›")
                    found[skipped + size].setdefault("noun", narrowed)
                    break
        self._followed(place, found)
        word = tokens[place].key
        empty = word.isalpha() and word.endswith("ly") and word not in listed("degrees")
        if word in listed("harmless") or (empty and not found):
            found[1]["drop"] = ""
        if not found and (after := self._measured(place)):
            found[after] |= {"take": "", "have": ""}
        if not found and (own := self.reader.own(word)):
            found[1][own] = ""
        if _CARD.fullmatch(word):
            found[1]["card"] = word
        if MARK.search(tokens[place].text):
            found[1]["name"] = tokens[place].text
        return dict(sorted(found.items(), reverse=True))

    def _places(self, place: int) -> Iterator[tuple[int, str]]:
        """The range or module that a preposition names here: `inside each decode region`."""
        keys = [token.key for token in self.tokens[place : place + 2]]
        skipped = 1 + (keys[1:] in (["each"], ["every"]))
        if keys[0] not in listed("places") and not (keys[0] == "in" and skipped > 1):
            return
        for size in range(min(_LONGEST_NOUN, len(self.tokens) - place - skipped), 0, -1):
            named = self.reader.said(
                " ".join(token.text for token in self.tokens[place + skipped :][:size])
            )
            if named and named.selector.kind in ("region", "module"):
                yield skipped + size, named.selector.name
                return

    def _narrowing(self, place: int, known: bool) -> Iterator[int]:
        """How many words at a place can narrow a noun behind them: `paged attention`."""
        for size in (1, 2):
            word = self.tokens[place + size - 1].text if place + size < len(self.tokens) else ""
            listed_one = word.lower() in listed("narrowing")
            named_so = word.replace("-", "").isalpha() and len(word) > 2
            if not (listed_one or (named_so and self._unknown(word))):
                return
            if size == 1 and known and not listed_one:
                return
            yield size

    def _followed(self, place: int, found: dict[int, Tags]) -> None:
        """A noun, what makes it smaller behind it, and a verb: `zeroing the output takes`."""
        nouns = [size for size, tags in found.items() if "noun" in tags]
        at = place + max(nouns, default=0)
        first = at + (key_at(self.tokens, at) in ("of", "for"))
        for after in (first + 1, first + 2):
            words = self.tokens[first:after]
            verb = lexicon().get((key_at(self.tokens, after),), {})
            object_like = all(self._unknown(word.text) or self._object(word.key) for word in words)
            object_like &= all(word.text.replace("-", "").isalpha() for word in words)
            if nouns and object_like and VERBS & verb.keys():
                by = " ".join(word.text for word in self.tokens[at:after])
                named: Named = found[max(nouns)]["noun"]
                if "‹" not in named.said:
                    narrowed = named._replace(said=f"{named.said}‹{by}›")
                    found[after - place].setdefault("noun", narrowed)
                return

    def _object(self, word: str) -> bool:
        """`the weights`, `its inputs`: what an op works on."""
        return bool({"inputs", "outputs", "weights", "gradients"} & {*lexicon().get((word,), {})})

    def _measured(self, place: int) -> int:
        """How many words at a place are any verb before a quantity: `guzzles up 5%`."""
        word = self.tokens[place].key
        verb = word.isalpha() and len(word) > 3 and word.endswith("s") and not word.endswith("ss")
        if not (verb and place) or _stem(word) in listed("turning"):
            return 0
        size = 1 + (key_at(self.tokens, place + 1) in listed("particles"))
        if not key_at(self.tokens, place + size)[:1].isalnum():
            return 0
        with suppress(ParseFailure):
            quantity(self.tokens, place + size)
            return size
        return 0

    def _unknown(self, name: str) -> bool:
        word = name.lower()
        known = (word,) in lexicon() or word in listed("harmless") or self.reader.said(name)
        return not known and word not in listed("never_narrowing") and not word.endswith("ly")

    def matches(self, shape: ClaimShape, match: ShapeMatch) -> Iterator[ShapeMatch]:
        """Every way in which a shape reads all tokens; what says where can stand anywhere."""
        pattern, free = shape.pattern, shape.free
        if match.place == len(self.tokens):
            if all(item.optional for item in pattern):
                yield match
            return
        for size, tags in self.at[match.place].items():
            if skipped := self._skipped(match, size, tags, shape.glue):
                yield from self.matches(shape, skipped)
        for at, item in enumerate(pattern):
            before = pattern[:at] if free else ()
            if any(each.slot == item.slot for each in before):  # `a` stands before `b`
                continue
            left = shape._replace(pattern=before + pattern[at + 1 :])
            for value, after, chunks in item.read(self, match.place):
                args = match.args | {item.name: value}
                following = match._replace(place=after, chunks=match.chunks + chunks, args=args)
                yield from self.matches(left, following)
            if not (item.optional or free):
                return

    def _skipped(
        self, match: ShapeMatch, size: int, tags: Tags, glue: Set[str]
    ) -> ShapeMatch | None:
        """Past a chunk that claims nothing, or that says where: `per step`, `on the GPU`."""
        after = match._replace(place=match.place + size, chunks=match.chunks + 1)
        if "drop" in tags or glue & tags.keys():
            return after
        where, clock = tags.get("scope"), tags.get("clock")
        of = match.place and self.tokens[match.place - 1].key == "of"
        if where and not of and match.where in ("", "everywhere", where):
            return after._replace(where=where)
        if clock and match.clock in ("", clock):
            return after._replace(clock=clock)
        ends = "," in tags and (after.place == len(self.tokens) or self._aside(after.place))
        placed = bool(match.where or match.clock) and not match.args
        ends = ends or ("," in tags and placed)  # `in forward, …`
        return after if ends or (tags.get("who") == "" and self._in(match.place)) else None

    def _aside(self, place: int) -> bool:
        """Whether a place has what says where, or nothing: `, at the very end`."""
        return any({"scope", "clock", "drop"} & tags.keys() for tags in self.at[place].values())

    def _in(self, place: int) -> bool:
        """Whether a preposition stands before a place, with nothing but empty words between:
        `in this llama run`.
        """
        before = [token.key for token in self.tokens[:place]]
        while (
            before
            and before[-1] not in _PREPOSITIONS
            and "drop" in self.at[len(before) - 1].get(1, {})
        ):
            before.pop()
        return bool(before) and before[-1] in _PREPOSITIONS


class Item(NamedTuple):
    """One place of a shape: `read` yields what it can read, the place behind it, its chunks."""

    name: str
    slot: str
    tags: frozenset[str]
    optional: bool
    read: Callable[[Lattice, int], Iterator[tuple[Any, int, int]]]


class ClaimShape(NamedTuple):
    """What a claim can look like, and how the language says it. A `free` one has its parts in any
    order, with the tags of `glue` (mostly verbs) between them.
    """

    pattern: tuple[Item, ...]
    said: str
    free: bool
    glue: frozenset[str]


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
        lattice = Lattice(tokens, self)
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
        waits = _FOR_GPU.search(text)  # who waits for the GPU is no GPU
        yield from dict.fromkeys(
            claim for claim in claims if claim and not (waits and _GPU.search(claim))
        )

    def begins(self, text: str, wanted: Set[str]) -> bool:
        """Whether the first words of a claim can have one of these tags."""
        tokens = [token for token in split(text) if token.key not in listed("articles")]
        first = Lattice(tokens, self).at[0] if tokens else {}
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
        marked = {name: _NARROWED.findall(v) for name, v in args.items() if isinstance(v, str)}
        if any(by for name, by in marked.items() if name not in ("a", "counts")):
            return ""  # only of what is measured it is known what less of it means
        narrowed = [by for found in marked.values() for by in found]
        nouns = [_NARROWED.sub("", each) for each in nouns]
        phases = [each for each in nouns if each.split()[-1] in PHASES]
        if phases and where in ("in forward", "in backward"):
            return ""  # `kernels in backward outnumber those in forward`: two places
        bare = [each for each in nouns if each.lower() in PHASES]
        if bare and any(" " in each and {*each.lower().split()} & {*PHASES} for each in nouns):
            return ""  # `attention backward and forward`: the second one is of attention too
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
        if whole == "cpu time" and not where and "{whole}" in template:
            where = "per pass"
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
        return _NARROWED.sub("", said) + (f" ## {' '.join(narrowed)}" if narrowed else "")


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


def _place(named: Named) -> str | None:
    """A range, a module or an op: what is launched inside it is meant."""
    name, kind = named.selector.name, named.selector.kind
    return f'"{name}"' if kind in ("region", "module", "op") and name in named.said else None


def _phase(named: Named) -> str | None:
    return said if (said := named.said.lower()) in PHASES else None


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
    return not numbered and _NARROWED.sub("", named.said) not in PHASES


def _counted(amount: Heard, named: Named) -> str | None:
    if _NARROWED.sub("", named.said) in PHASES:
        return None
    # of modules, those that there are; each is called in every step
    what = f"distinct {named.said}" if named.selector.kind == "module" else named.said
    ends = (each.split("|") for each in (amount.text, amount.upper) if each)
    return " && ".join(" || ".join(f"{end} {what}" for end in each) for each in ends)


_JOINTS = {",": ",", "and": "and"}
_ONE = ("1", "exactly 1", "at least 1")
_CLOCKED = {"gpu time": "gpu time", "kernel time": "kernel time", "cpu time": "cpu time"}

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
    "maker": (
        "noun",
        lambda named: (
            _trait(named)
            if all(each.kind in ("family", "core") for each in named.selector.traits)
            else None
        ),
    ),
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
    "plain": ("whole", lambda whole: whole if whole in ("time", "step") else None),
    "ongpu": (
        "whole",
        lambda whole: whole if whole in ("time", "gpu time", "kernel time") else None,
    ),
    "clocked": ("whole", _CLOCKED.get),
    "cputime": ("whole", lambda whole: whole if whole == "cpu time" else None),
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
