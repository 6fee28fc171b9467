"""Regular expressions whose time grows faster than the text that they are given.

An expression becomes an automaton: a state per character that it names, an arrow where one may
follow another. A search adds a state in front that takes any character. A backtracking matcher needs

    exponential time   when a state leads back to itself by two ways on one text: `(a+)+b`
    the square         when two states lead to themselves, and the first to the second, all on one
                       text: `a*a*b`, or a search for `a+b`

and the rest of the text fails. A loop that may end the match does not fail. Possessive repeats of
one character are told apart: they end only where their character ends. A possessive repeat of a
group gives no turn back: its turns are no two ways, and it does not fail where the match may end. Assertions are passed over,
but for one in front that no character of the kind stands before.
"""

from __future__ import annotations

import re
import re._constants as codes
import re._parser as parser
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Any

LETTERS = [*map(chr, range(1, 127)), "é", "١", "一", "\u2003"]  # one of each other kind
EVERY = (1 << len(LETTERS)) - 1
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_ENDS = (codes.AT_END, codes.AT_END_STRING)
_NAMED = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
_COPIES = 2  # of the body of a bounded repeat: more of them make no loop

Rows = list[list[tuple[int, int]]]
Part = tuple[dict[int, int], set[int], bool]  # first states and what they may take; last; may be ""


class Automaton:
    """States are numbers; `mask[state]` has a bit for each of LETTERS that it takes."""

    def __init__(self, items: list[Any], flags: int, *, search: bool, full: bool) -> None:
        self.flags = flags
        self.mask: list[int] = []
        self.guard: list[int] = []  # what may come next
        self.arrows: list[dict[int, int]] = []
        self.turns: set[tuple[int, int]] = set()  # arrows that no matcher goes back over
        self.given: list[tuple[range, set[int]]] = []  # possessive groups: states, the last ones
        self.fails_at_end = full
        first, self.final, empty = self._sequence(items)
        self.final |= {-1} if empty else set()
        if search and not (items and items[0] == (codes.AT, codes.AT_BEGINNING_STRING)):
            self._before(items, first)

    def _before(self, items: list[Any], first: dict[int, int]) -> None:
        """A search begins anywhere, but not behind what an assertion in front forbids."""
        never = self._behind(items)
        states = [self._state(EVERY & ~never), self._state(never)]
        for state in states:
            self.arrows[state] |= dict.fromkeys(states, EVERY)
        self.arrows[states[0]] |= first

    def _behind(self, items: list[Any]) -> int:
        if not items:
            return 0
        code, value = items[0]
        if code is codes.ASSERT_NOT and value[0] == -1:
            return self._takes_alone(list(value[1]))
        if (code, value) == (codes.AT, codes.AT_BOUNDARY):
            return self._letters(r"\w")
        if code is codes.AT and value is codes.AT_BEGINNING:
            return EVERY & ~self._letters(r"\n")
        return 0

    def _takes_alone(self, items: list[Any]) -> int:
        return self._one(items[0]) if len(items) == 1 else 0

    def _state(self, mask: int) -> int:
        self.mask.append(mask)
        self.guard.append(EVERY)
        self.arrows.append({})
        return len(self.mask) - 1

    def _sequence(self, items: Iterable[Any]) -> Part:
        done: Part = ({}, set(), True)
        for item in items:
            done = self._joined(done, self._part(item))
        return done

    def _joined(self, left: Part, right: Part) -> Part:
        for last in left[1]:
            for state, mask in right[0].items():
                self.arrows[last][state] = self.arrows[last].get(state, 0) | mask & self.guard[last]
        first = left[0] | right[0] if left[2] else left[0]
        return first, right[1] | left[1] if right[2] else right[1], left[2] and right[2]

    def _part(self, item: Any) -> Part:
        code, value = item
        if code in _REPEATS:
            return self._repeat(code, *value)
        if code is codes.SUBPATTERN:
            return self._sequence(value[-1])
        if code is codes.ATOMIC_GROUP:
            return self._sequence(value)
        if code is codes.BRANCH:
            parts = [self._sequence(branch) for branch in value[1]]
            first = {state: mask for part in parts for state, mask in part[0].items()}
            return first, set().union(*(part[1] for part in parts)), any(p[2] for p in parts)
        if code is codes.AT and value in _ENDS:
            self.fails_at_end = True
        if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            return {}, set(), True
        state = self._state(self._one(item))
        return {state: EVERY}, {state}, False

    def _repeat(self, code: Any, low: int, high: int, body: Any) -> Part:
        loop = high == codes.MAXREPEAT
        done: Part = ({}, set(), True)
        copies = min(low, _COPIES) if loop else min(low, _COPIES - 1)
        for _ in range(copies):
            done = self._joined(done, self._sequence(body))
        if loop:
            part = self._loop(code, body)
            done = self._joined(done, (part[0], part[1], True))
            if code is codes.POSSESSIVE_REPEAT and self._alone(part):
                for state in done[1]:
                    self.guard[state] = EVERY & ~self.mask[state]
            return done
        if high > low:
            part = self._sequence(body)
            done = self._joined(done, (part[0], part[1], True))
        return done

    def _loop(self, code: Any, body: Any) -> Part:
        begin = len(self.mask)
        part = self._sequence(body)
        before = {(state, to) for state in part[1] for to in self.arrows[state]}
        self._joined(part, part)
        if code is codes.POSSESSIVE_REPEAT and not self._alone(part):
            self.turns |= {(state, to) for state in part[1] for to in part[0]} - before
            self.given.append((range(begin, len(self.mask)), part[1]))
        return part

    def _alone(self, part: Part) -> bool:
        return [*part[0]] == [*part[1]]

    def _one(self, item: Any) -> int:
        """The letters that one item takes."""
        code, value = item
        if code is codes.LITERAL:
            return self._letters(re.escape(chr(value)))
        if code is codes.NOT_LITERAL:
            return EVERY & ~self._letters(re.escape(chr(value)))
        return self._letters(_written(value)) if code is codes.IN else EVERY

    def _letters(self, text: str) -> int:
        return _taken(text, self.flags & (re.IGNORECASE | re.ASCII))

    @cached_property
    def after(self) -> Rows:
        """For each state those that may follow, and the letters that lead there."""
        rows = ([(to, mask & self.mask[to]) for to, mask in row.items()] for row in self.arrows)
        return [[(to, letters) for to, letters in row if letters] for row in rows]

    @cached_property
    def tried(self) -> Rows:
        """The same without the turns of possessive groups."""
        return [
            [(to, letters) for to, letters in row if (state, to) not in self.turns]
            for state, row in enumerate(self.after)
        ]

    def degree(self) -> int:
        """1 for time in proportion, 2 for the square and more, 9 for exponential time."""
        harmless = set() if self.fails_at_end else set(self.final)
        if -1 in harmless:
            return 1  # it matches the empty text: nothing ever fails
        for states, last in self.given:
            harmless |= set(states) if last <= harmless else set()
        every, tried = Loops(self.after, harmless), Loops(self.tried, harmless)
        rows = (self.tried, self.tried)
        if any(_meets((p, p), (p, p), (ring, ring), rows) for p, ring in tried.rings.items()):
            return 9
        square = self._square(tried, every) or (bool(self.turns) and self._square(every, tried))
        return 2 if square else 1

    def _square(self, first: Loops, second: Loops) -> bool:
        """Whether a loop of the first kind leads to one of the second on the text of both."""
        reach = Loops(self.after, set()).reach
        for p, ring in first.rings.items():
            for q, other in second.rings.items():
                if p != q and q in reach[p] and self.mask[p] & self.mask[q]:
                    between = {b for b in reach[p] if q in reach[b]} | {q}
                    rows = (first.after, self.after, second.after)
                    if _meets((p, p, q), (p, q, q), (ring, between, other), rows):
                        return True
        return False


@cache
def _taken(text: str, flags: int) -> int:
    form = re.compile(text, flags)
    return sum(1 << at for at, letter in enumerate(LETTERS) if form.match(letter))


class Loops:
    """The states that lead back to themselves, each with those on the way."""

    def __init__(self, after: Rows, harmless: set[int]) -> None:
        self.after = after
        self.reach = [self._reached(state) for state in range(len(after))]
        loops = [p for p in range(len(after)) if p in self.reach[p] and p not in harmless]
        self.rings = {p: {q for q in self.reach[p] if p in self.reach[q]} for p in loops}

    def _reached(self, state: int) -> set[int]:
        found: set[int] = set()
        waiting = [state]
        while waiting:
            fresh = {to for to, _ in self.after[waiting.pop()]} - found
            found |= fresh
            waiting += fresh
        return found


def _meets(
    start: tuple[int, ...],
    goal: tuple[int, ...],
    within: tuple[set[int], ...],
    rows: tuple[Rows, ...],
) -> bool:
    """Whether one text leads each state of `start` to that of `goal`, not all by one way."""
    seen = {(start, len(start) > 2)}
    waiting = [*seen]
    while waiting:
        states, parted = waiting.pop()
        for to in _together(states, EVERY, within, rows):
            split = parted or to[0] != to[1]
            if to == goal and split:
                return True
            if (to, split) not in seen:
                seen.add((to, split))
                waiting.append((to, split))
    return False


def _together(
    states: tuple[int, ...], letters: int, within: tuple[set[int], ...], rows: tuple[Rows, ...]
) -> Iterator[tuple[int, ...]]:
    if not states:
        yield ()
        return
    for to, mask in rows[0][states[0]]:
        if (both := mask & letters) and to in within[0]:
            for rest in _together(states[1:], both, within[1:], rows[1:]):
                yield (to, *rest)


def _written(value: list[Any]) -> str:
    """A character class as it is written."""
    text = ""
    for code, what in value:
        if code is codes.NEGATE:
            text += "^"
        elif code is codes.LITERAL:
            text += re.escape(chr(what))
        elif code is codes.RANGE:
            text += "-".join(re.escape(chr(each)) for each in what)
        else:
            word = str(what).removeprefix("CATEGORY_")
            short = _NAMED[word.removeprefix("NOT_")]
            text += short.upper() if word.startswith("NOT_") else short
    return f"[{text}]"


def degree(pattern: str, flags: int = 0, *, search: bool = True, full: bool = False) -> int:
    """The worst of the alternatives that it consists of."""
    tree = parser.parse(pattern, flags)
    items = list(tree)
    alone = len(items) == 1 and items[0][0] is codes.BRANCH
    branches = [list(branch) for branch in items[0][1][1]] if alone else [items]
    return max(
        Automaton(branch, tree.state.flags, search=search, full=full).degree()
        for branch in branches
    )
