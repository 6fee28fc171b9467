"""The language of predictions: one lexer, one parser, a tree that prints as it was written.

    kernels == 5
    in mlp_fwd: time(gemm) / gpu.time > 40% and not fused(gelu, mul)

A prediction is an expression over quantities, with an optional scope before a colon. The parser
knows no quantity: a table says how the arguments of each are read (`Reads`). Every error has the
place of the first wrong character.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from foretrace.base.errors import UsageError

MOST = 2_000  # characters of a prediction
DEEPEST = 50  # parentheses inside each other
_LONG = re.compile(r"`([^`]{57})[^`]{4,}`")  # a name in a message that is too long for it
LONGEST = 100  # signs between the parts of a prediction


class WrongText(UsageError):
    """A text that is no prediction: a caret below the place, and what would do there."""

    def __init__(self, text: str, at: int, problem: str, hint: str = "") -> None:
        self.text, self.at, self.hint = text, min(at, len(text)), hint
        self.problem = _LONG.sub(r"`\1…`", problem)
        super().__init__(f"{self.problem}; {hint}" if hint else self.problem)

    @property
    def marked(self) -> tuple[str, str]:
        """The text, and a caret below the wrong place; a long text is cut around it."""
        first = max(0, self.at - 60)
        shown = self.text[first : first + 76]
        return shown, " " * (self.at - first) + "^"


class Unknown(Exception):
    """The trace does not decide this; the text says what is missing."""


def nearest(word: str, known: Sequence[str], most: int = 3) -> list[str]:
    """Known words that a person may have meant."""
    same = [name for name in known if name.lower() == word.lower()]
    near = get_close_matches(word, known, most, 0.55)
    return same or near or get_close_matches(word.lower(), known, most, 0.55)


def glob(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern with `*` in it, in time linear in both."""
    if "*" not in pattern:
        return pattern == name
    first, *between, last = pattern.split("*")
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in between:  # each at its first place leaves the most for the next
        place = name.find(part, at, end)
        if place < 0:
            return False
        at = place + len(part)
    return True


# A unit: what it measures, and how many of the base there are in one.
TIME, BYTES, FLOPS, PLAIN = "time", "bytes", "flops", ""
BYTE_RATE, FLOP_RATE = "bytes/s", "flops/s"
UNITS: dict[str, tuple[str, float]] = {
    "ns": (TIME, 1),
    "us": (TIME, 1e3),
    "µs": (TIME, 1e3),
    "ms": (TIME, 1e6),
    "s": (TIME, 1e9),
    "min": (TIME, 60e9),
    "%": (PLAIN, 0.01),
    "x": (PLAIN, 1),
    "B": (BYTES, 1),
    "bytes": (BYTES, 1),
    **{f"{p}B": (BYTES, 1000.0**n) for n, p in enumerate(("k", "M", "G", "T"), 1)},
    **{f"{p}iB": (BYTES, 1024.0**n) for n, p in enumerate(("K", "M", "G", "T"), 1)},
    **{f"{p}B/s": (BYTE_RATE, 1000.0**n) for n, p in enumerate(("", "k", "M", "G", "T"))},
    **{f"{p}FLOP": (FLOPS, 1000.0**n) for n, p in enumerate(("", "k", "M", "G", "T", "P"))},
    **{f"{p}FLOP/s": (FLOP_RATE, 1000.0**n) for n, p in enumerate(("", "k", "M", "G", "T", "P"))},
}
_UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_NUMBER = re.compile(
    rf"(?P<digits>\d+(?:[,_]\d{{3}})*(?:\.\d+)?(?:e[+-]?\d+)?)(?:\s*(?P<unit>{_UNIT})(?![\w/]))?"
)
_WORD = re.compile(r"[^\W\d]\w*")
_OP = re.compile(r"[^\W\d]\w*(?:::\w+)+")  # `aten::mm`
_SIZE = re.compile(r"\d+(?:x\d+)+(?!\w)")  # `256x128`
_SIGNS = (
    "==",
    "!=",
    "<=",
    ">=",
    "±",
    "+-",
    "<",
    ">",
    "+",
    "-",
    "*",
    "/",
    "(",
    ")",
    ",",
    "~",
    ".",
    ":",
)
# What other languages and people write, and what it is here.
_SIGN_SLIPS = {"===": "==", "=>": ">=", "=<": "<=", "<>": "!=", "&&": "and", "||": "or"}
_SIGN_SLIPS |= {"=": "==", "&": "and", "|": "or", "!": "not` or `!=", ",": "and"}
_WORD_SLIPS = dict.fromkeys(("is", "equals", "equal"), "==")
_WORD_SLIPS |= {"under": "<", "below": "<", "over": ">", "above": ">"}
_UNIT_SLIPS = dict.fromkeys(("sec", "secs", "second", "seconds"), "s")
_UNIT_SLIPS |= {"msec": "ms", "usec": "us", "percent": "%", "times": "x"}
_COMPARE = ("==", "!=", "<=", ">=", "<", ">", "~", "in")
_POWER = {"or": 1, "and": 2, **dict.fromkeys(_COMPARE, 4), "+": 5, "-": 5, "*": 6, "/": 6}
_NOT, _MINUS = 3, 7


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression; `at` is its place in the text."""

    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number as it was written: its value in base units, what it measures, and half of its last
    digit, within which a measured value is the same.
    """

    value: float
    measures: str
    half: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Words(Node):
    """A bare word, or a quoted text, that stands for itself: `bf16`, `host`, `"model.py:41"`."""

    text: str

    def __str__(self) -> str:
        bare = _WORD.fullmatch(self.text) or _SIZE.fullmatch(self.text)
        return self.text if bare else f'"{self.text}"'


@dataclass(frozen=True, slots=True)
class Selector(Node):
    """What a quantity is of, as it was written: `gemm`, `copy HtoD`, `"model.py:41"`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Quantity(Node):
    """A quantity: its name, whose it is (`a`, `b`, `total`, after a fix), and what of."""

    name: str
    of: tuple[Node, ...] = ()
    side: str = ""
    total: bool = False
    after: str = ""

    def __str__(self) -> str:
        front = f"{self.side}." * bool(self.side) + "total." * self.total
        front += f"after({self.after})." * bool(self.after)
        return f"{front}{self.name}" + (f"({', '.join(map(str, self.of))})" if self.of else "")


@dataclass(frozen=True, slots=True)
class Signed(Node):
    """`not x` or `-x`."""

    sign: str
    of: Node

    def __str__(self) -> str:
        return (
            f"not {_within(self.of, _NOT)}"
            if self.sign == "not"
            else f"-{_within(self.of, _MINUS)}"
        )


@dataclass(frozen=True, slots=True)
class Pair(Node):
    """Two parts with a sign between them; `within` is the tolerance of `~`."""

    sign: str
    left: Node
    right: Node
    within: Number | None = None

    def __str__(self) -> str:
        power = _POWER[self.sign]
        left = _within(self.left, power if self.sign not in _COMPARE else power + 1)
        right = _within(self.right, power + 1)
        return f"{left} {self.sign} {right}" + (f" (± {self.within})" if self.within else "")


@dataclass(frozen=True, slots=True)
class Listed(Node):
    """`(bf16, fp32)`: any of these."""

    of: tuple[Node, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.of))})"


def _within(node: Node, power: int) -> str:
    own = _POWER[node.sign] if isinstance(node, Pair) else _NOT if isinstance(node, Signed) else 9
    if isinstance(node, Signed) and node.sign == "-":
        own = _MINUS
    return f"({node})" if own < power else str(node)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a prediction looks. `kind` is "" (a step where there are steps), step, region, op,
    module, backward or forward; `name` a name with `*`, or a step's number.
    """

    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        if not self.kind:
            return ""
        word = self.kind if self.kind in ("step", "module", "rank") else ""
        plain = re.fullmatch(r"[\w*.-]+(?:::[\w*.-]+)*", self.name)
        name = self.name if plain else f'"{self.name}"'
        return f"in {word} {name}: ".replace("  ", " ")


@dataclass(frozen=True, slots=True)
class Prediction:
    """A scope and an expression, and the text as it was written."""

    scope: Scope
    node: Node
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.scope}{self.node}"

    def walk(self) -> Iterator[Node]:
        """Every part, outermost first."""
        yield from walk(self.node)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    below: tuple[Node, ...] = ()
    if isinstance(node, Pair):
        below = (node.left, node.right)
    elif isinstance(node, Signed):
        below = (node.of,)
    elif isinstance(node, Quantity | Listed):
        below = node.of
    for each in below:
        yield from walk(each)


# How the arguments of a quantity are read: what each is of, and how many there are at least and at
# most. `expression` arguments are quantities themselves: `max(time(gemm))`.
@dataclass(frozen=True, slots=True)
class Reads:
    """`least` to `most` arguments, each a selector or an expression."""

    least: int = 0
    most: int = 0
    expression: bool = False


def parse(
    text: str, known: Mapping[str, Reads], advise: Callable[[str], str] = lambda _: ""
) -> Prediction:
    """A prediction. `advise` says what may be meant by a word that is no quantity."""
    return _Parser(text, known, advise).prediction()


class _Parser:
    def __init__(self, text: str, known: Mapping[str, Reads], advise: Callable[[str], str]) -> None:
        self.text, self.known, self.advise = text, known, advise
        self.at, self.depth, self.signs = 0, 0, 0
        self.compared = False  # a word behind a comparison may have the name of a quantity
        if len(text) > MOST:
            raise self.wrong(f"a prediction has at most {MOST:,} characters", at=MOST)

    def wrong(self, problem: str, hint: str = "", at: int | None = None) -> WrongText:
        return WrongText(self.text, self.at if at is None else at, problem, hint)

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def sign(self) -> str:
        """The sign or word that is next, which stays."""
        self.blank()
        rest = self.text[self.at :]
        if word := _WORD.match(rest):
            return word[0]
        return next((sign for sign in _SIGNS if rest.startswith(sign)), rest[:1])

    def take(self, sign: str) -> bool:
        if self.sign() != sign:
            return False
        self.at += len(sign)
        return True

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wrong(f"expected `{sign}`")

    def prediction(self) -> Prediction:
        scope = self.scope() if self.sign() == "in" else Scope()
        node = self.expression(0)
        if sign := self.sign():
            if _WORD.match(sign) and not isinstance(node, Pair) and sign not in _WORD_SLIPS:
                hint = self.advise(self.text[: self.at + len(sign)])  # `gpu busy > 90%`
                raise self.wrong(f"`{sign}` cannot stand here", hint)
            raise self.misplaced()
        return Prediction(scope, node, self.text.strip())

    def misplaced(self, hint: str = "") -> WrongText:
        """What is next is no part of a prediction."""
        sign, begin = self.sign(), max(self.at - 2, 0)
        around = self.text[begin : self.at + 2]
        slip = next((each for each in _SIGN_SLIPS if each in around), "")
        if sign == ":":
            hint = f"a place begins with `in`: `in {self.text[: self.at].strip()}:`"
        elif sign == "(":
            hint = "a tolerance is `(± 10%)`"
        elif _WORD.match(sign):
            hint = "join two claims with `and` or `or`"
            hint = f"write `{_WORD_SLIPS[sign]}`" if sign in _WORD_SLIPS else hint
        elif slip and around != "==" and (sign not in _SIGNS or len(slip) > 1 or sign == ","):
            hint = f"write `{_SIGN_SLIPS[slip]}`"
        return self.wrong(f"`{sign}` cannot stand here", hint)

    def scope(self) -> Scope:
        begin = self.at
        self.need("in")
        self.blank()
        if self.text[self.at : self.at + 1] == '"':
            scope = Scope("region", self.quoted())
        else:
            found = re.compile(r"(?:[^:\s]|::|:(?=\S))+(?: (?:[^:\s]|::|:(?=\S))+)*").match(
                self.text, self.at
            )
            if not found:
                raise self.wrong("expected the name of a region, or `step 3`, `module NAME`")
            name, self.at = found[0], found.end()
            named = _scope(name)
            if named is None:
                hint = "a place ends with `:`, and a name with blanks stands in quotes"
                raise self.wrong(f"`in {name}` names no place", hint, begin)
            scope = named
        if not self.take(":"):
            raise self.wrong("expected `:` after the place", "as in `in mlp_fwd: kernels == 5`")
        return scope

    def quoted(self) -> str:
        end = self.text.find('"', self.at + 1)
        if end < 0:
            raise self.wrong("a quote without its end")
        text, self.at = self.text[self.at + 1 : end], end + 1
        return text

    def expression(self, least: int) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wrong("too many parentheses inside each other")
        left = self.first()
        while (power := _POWER.get(sign := self.sign(), 0)) > least:
            if sign in _COMPARE and isinstance(left, Pair) and left.sign in _COMPARE and least < 4:
                raise self.wrong("two comparisons in a row", "join them with `and`")
            at = self.at
            self.signs += 1
            if self.signs > LONGEST:
                raise self.wrong(f"a prediction has at most {LONGEST} signs")
            self.take(sign)
            self.compared = sign in _COMPARE
            right = self.listed() if sign == "in" else self.expression(power)
            left = Pair(at, sign, left, right, self.tolerance() if sign == "~" else None)
        self.depth -= 1
        return left

    def listed(self) -> Node:
        at = self.at
        self.need("(")
        of = [self.expression(0)]
        while self.take(","):
            of.append(self.expression(0))
        self.need(")")
        return Listed(at, tuple(of))

    def tolerance(self) -> Number | None:
        """`± 10%`, also in parentheses."""
        begin, inside = self.at, self.take("(")
        if not (self.take("±") or self.take("+-")):
            self.at = begin
            return None
        found = self.first()
        if not isinstance(found, Number):
            raise self.wrong("expected a number", "as in `± 10%`", found.at)
        if inside:
            self.need(")")
        return found

    def first(self) -> Node:
        sign, at = self.sign(), self.at
        if not sign:
            raise self.wrong("the prediction ends too early", "expected a quantity or a number")
        if sign in ("not", "-"):
            self.take(sign)
            return Signed(at, sign, self.expression(_NOT if sign == "not" else _MINUS - 1))
        if self.take("("):
            inside = self.expression(0)
            self.need(")")
            return inside
        if size := _SIZE.match(self.text, self.at):
            self.at = size.end()
            return Words(at, size[0])
        if number := _NUMBER.match(self.text, self.at):
            return self.number(number)
        if sign == '"':
            return Words(at, self.quoted())
        if op := _OP.match(self.text, self.at):
            self.at = op.end()
            return Words(at, op[0])
        if _WORD.match(sign):
            return self.quantity()
        raise self.misplaced("expected a quantity or a number")

    def number(self, found: re.Match[str]) -> Number:
        digits = found["digits"].replace(",", "").replace("_", "")
        unit, at = found["unit"], self.at
        self.at = found.end()
        rest = re.compile(r"\s*([^\W\d_]\w*)").match(self.text, self.at)
        word = rest[1] if rest else ""
        slip = _UNIT_SLIPS.get(word, "")
        apart = rest is not None and rest.start(1) > self.at  # `5 waits`: perhaps another claim
        joins = word in ("and", "or", "in")
        if (
            rest
            and unit is None
            and not joins
            and (slip or not apart or nearest(word, list(UNITS)))
        ):
            self.at = rest.start(1)
            near = [slip] if slip else nearest(word, list(UNITS))
            known = ", ".join(near or ("us", "ms", "MB", "GB", "%"))
            raise self.wrong(
                f"no unit `{rest[1]}`",
                f"units are {known}" if not near else f"did you mean {known}?",
            )
        measures, scale = UNITS[unit] if unit else (PLAIN, 1.0)
        mantissa, _, exponent = digits.partition("e")
        places = len(mantissa.partition(".")[2])
        value = float(digits) * scale
        if not math.isfinite(value):
            raise self.wrong("this number is too large", at=at)
        exact = unit is None and "." not in digits and not exponent
        half = 0.0 if exact else 0.5 * float(f"1e{int(exponent or 0) - places}") * scale
        return Number(at, value, measures, half, found[0])

    def quantity(self) -> Node:
        """A path of words, perhaps arguments; one that names no quantity stands for itself."""
        begin, path = self.at, [self.word()]
        side, total, after = "", False, ""
        while self.text[self.at : self.at + 1] == "." and _WORD.match(self.text, self.at + 1):
            self.at += 1
            path.append(self.word())
        if path[:1] in (["a"], ["b"]) and len(path) > 1:
            side = path.pop(0)
        if path[:1] == ["total"] and len(path) > 1:
            total = bool(path.pop(0))
        if path == ["after"]:
            self.need("(")
            after = self.argument()
            self.need(")")
            self.need(".")
            path = [self.word()]
            while self.text[self.at : self.at + 1] == "." and _WORD.match(self.text, self.at + 1):
                self.at += 1
                path.append(self.word())
        name = ".".join(path)
        reads = self.known.get(name)
        if reads is None:
            if side or total or after or "." in name or self.opens():
                raise self.unknown(name, begin)
            return Words(begin, name)
        of: tuple[Node, ...] = ()
        if reads.most and self.opens():
            of = self.arguments(reads)
        elif reads.least and self.compared:
            return Words(begin, name)
        elif reads.least:
            raise self.wrong(f"`{name}` needs what it is of", f"as in `{name}(gemm)`")
        return Quantity(begin, name, of, side, total, after)

    def opens(self) -> bool:
        """Whether arguments follow; `(± 10%)` is a tolerance."""
        self.blank()
        return bool(re.compile(r"\((?!\s*(?:±|\+-))").match(self.text, self.at))

    def unknown(self, name: str, at: int) -> WrongText:
        hint = self.advise(name) or "`foretrace explain` lists the quantities"
        return self.wrong(f"no quantity `{name}`", hint, at)

    def word(self) -> str:
        found = _WORD.match(self.text, self.at)
        if not found:
            raise self.wrong("expected the name of a quantity")
        self.at = found.end()
        return found[0]

    def arguments(self, reads: Reads) -> tuple[Node, ...]:
        at = self.at
        self.need("(")
        of = list[Node]()
        while True:
            self.blank()
            begin = self.at
            of.append(self.expression(0) if reads.expression else Selector(begin, self.argument()))
            if not self.take(","):
                break
        self.need(")")
        if not reads.least <= len(of) <= reads.most:
            count = (
                f"{reads.least}" if reads.least == reads.most else f"{reads.least} to {reads.most}"
            )
            raise self.wrong(f"expected {count} of them in the parentheses", at=at)
        return tuple(of)

    def argument(self) -> str:
        """What stands up to the next comma or the end of the parentheses, as it is written."""
        self.blank()
        begin, inside = self.at, 0
        while self.at < len(self.text):
            mark = self.text[self.at]
            if mark == '"':
                self.quoted()
                continue
            if not inside and mark in ",)":
                break
            inside += (mark == "(") - (mark == ")")
            self.at += 1
        text = " ".join(self.text[begin : self.at].split())
        if not text:
            raise self.wrong("expected what the quantity is of", "as in `count(gemm)`", begin)
        return text


def _scope(name: str) -> Scope | None:
    first, _, rest = name.partition(" ")
    if first == "step" and rest.isdecimal():
        return Scope("step", str(int(rest)))
    if first == "rank" and rest.isdecimal():
        return Scope("rank", str(int(rest)))
    if first == "module" and rest and " " not in rest:
        return Scope("module", rest)
    if " " in name:
        return None
    if name in ("backward", "forward"):
        return Scope("pass", name)
    return Scope("op" if "::" in name else "region", name)
