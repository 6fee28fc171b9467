"""The words of a claim, and what each can be: the ways in which a shape reads all of them.

`said` finds the noun that some words are; `own` the tag of a word that says nothing new of a trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from typing import Any, NamedTuple

from foretrace.base.patterns import regex
from foretrace.check.grammar import LONGEST_PHRASE
from foretrace.check.lexicon import READERS, TAGS, Tags, Tokens, lexicon, listed, quantity
from foretrace.check.words import ParseFailure, Selector, key_at

VERBS = frozenset(
    {"is", "have", "take", "use", "called", "used", "runs-on", "more", "less", "dominate"}
)
NARROWED = regex("‹([^›]*)›")
MARK = regex(r"_|::|[a-z][A-Z]|\*")  # a name has one, a word none
_LONGEST_NOUN = 7  # words
_PREPOSITIONS = ("in", "for", "of", "during", "throughout", "over", "across", "within")
_CARD = regex(r"amd|nvidia|[abgh]{1,2}[1-3]00|mi[1-3]\d\d[acx]?|v100|p100|a10g?|t4|l40?s?")


class Named(NamedTuple):
    """A noun: how the language says it, and what it selects."""

    said: str
    selector: Selector


Noun = Callable[[str], Named | None]


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


class ShapeMatch(NamedTuple):
    """How far a shape was matched: the place, the chunks, what was read, the scope, the clock."""

    place: int
    chunks: int
    args: dict[str, Any]
    where: str = ""
    clock: str = ""


class Lattice:
    """The tokens of a claim, and the chunks that can begin at each: how many words -> tags."""

    def __init__(
        self, tokens: Tokens, said: Callable[[str], Named | None], own: Callable[[str], str]
    ) -> None:
        self.tokens, self.said, self.own = tokens, said, own
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
            if named := self.said(text):
                found[size]["noun"] = named
                nouns += 1
            if nouns == 2:  # nouns that begin with one word, the longest
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
                if named := self.said(text):
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
        if not found and (own := self.own(word)):
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
            named = self.said(
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
        if not (verb and place) or word.removesuffix("s").removesuffix("e") in listed("turning"):
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
        known = (word,) in lexicon() or word in listed("harmless") or self.said(name)
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
