"""Tells a random token from the words, numbers and sizes that names of ops and kernels are made of.

A token is cut where its letters change case and where digits begin: `MainloopSm90Tma` has the
pieces Mainloop, Sm, 90 and Tma. Pieces that are neither words nor known shapes add to a score,
words take from it. A random token of 20 letters and digits has a dozen pieces and no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator


def words(text: str) -> frozenset[str]:
    """The words of a text, for tables in code."""
    return frozenset(text.split())


# Which letters often follow which: counted in our pages and in 1,600 names of ops and kernels.
_FOLLOWS = """
    abcdgilmnprst babefijlmorsuy cacehiklotu dadegiorstuy eacdelmnprstx faefiloprstu gaehilmnorsu
    haeiorstu iacdeglmnopstvz jeiklnorstu kaegilnoprstuvw ladeilostuy mabeimopsu nacdeginostv
    ocdfglmnoprstuw paeiloprstu qakqrsuvw racdeimnorstuy sacehiklmopstuy taehiorstuy uabcelmnprst
    vaeiosw waeghimnors xacefiprsty yeklmnopstwz zaeinostyz
"""
_PAIRS = frozenset(each[0] + letter for each in _FOLLOWS.split() for letter in each[1:])
# Words of kernel names that are short or that nobody could pronounce.
_TERMS = words("""
    act add align all alpha args arr at attn bit bmm bwd by cat copy ctx cuda cudnn default dev div
    dot dst eff end enqueue epi eq ex ext fmha for fp fwd gemm gemv gen get gmem hip info key kjt kv
    load log lt max mem memcpy mma mnk mse mul nccl nchw neg nhwc nll on op or peek per philox pos
    pow prob ptr ptx qkv rms self seq set sm smem softmax sqrt src ssm sub sum symk tanh thr tma to
    top var vec view vmnk work
    """)
_PIECE = re.compile(
    r"""
    (?P<shape>\d{1,4}(?:x\d{1,4})++                                     # sizes: 128x64x32
    |[EeF]\d[Mm]\d|[bt]?f(?:loat|p)?(?:8|16|32|64)(?!\d)               # types: e4m3, bf16, i32
    |[iu](?:8|16|32|64)(?!\d)|vec\d{1,2}+|U?E\dM\d
    |s[qk]\d{1,6}+|(?:sq){1,2}(?:sq|sk)\d{1,6}+                         # counts in vLLM's regions
    |o?i64|div\d{1,4}                                                   # CuTe's strides
    |[A-Z]\d{1,3}(?=[A-Z][a-z]))                                        # H64Paged, P16Var
    |(?P<number>\d++)
    |(?P<word>[A-Z]++(?![a-z])|[A-Z]?[a-z]++|[A-Z]+(?=[A-Z]))
    """,
    re.VERBOSE,
)
_TOKEN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|[+/-]{1,2}(?=[A-Za-z0-9])){15,}+=*+")
_ALL_KINDS = re.compile(r"(?=[^A-Z]*+[A-Z])(?=[^a-z]*+[a-z])(?=[^0-9]*+[0-9])")
_HEX = re.compile(r"[0-9a-f]{16,}+|[0-9A-F]{16,}+")
_SHORT_HEX = re.compile(
    r"(?<![A-Za-z0-9])(?=[0-9]{0,15}[a-f])(?=[a-f]{0,15}[0-9])[0-9a-f]{12,15}(?![A-Za-z0-9])"
)
_BARS = re.compile(r"(?<![A-Za-z0-9-])[A-Za-z0-9-]++(?:_++[A-Za-z0-9-]++)++")
_PART = re.compile(r"[A-Za-z0-9-]++")
_CASES = re.compile(r"(?=[^a-z]*+[a-z])(?=[^A-Z]*+[A-Z])")
_SHORTEST = 16
_SPECIFIED = re.compile(r"(?:\d++[cde]{0,2})++")  # arguments of an old Triton: 0d1d2de3
# Inductor's name of a graph is a hash of its code.
_GRAPH = re.compile(r"(?<=CompiledFxGraph )f[a-z2-7]{5,51}(?= ##)")
# Literals, types and references to earlier parts have digits that are no length of an identifier.
_LENGTH = re.compile(r"(?:L[a-z]n?\d++|E\d++E|DF\d++|[ST]\d*+_|\D)*+(\d{1,4})")
_MANGLED = re.compile(r"_Z[NLTKVRPSa-z0-9]\w*+(?:\.\w{1,16})*+")
# What an unknown piece adds is its letters and 2 for the break before it. The lowest score of
# 10,000 random tokens of 20 letters and digits is 13.2, the highest of 1,600 real names 11.2.
_BREAK, _DIGIT, _LIMIT = 2.0, 0.3, 12.0


def random_parts(text: str) -> list[tuple[int, int]]:
    """Where the text holds tokens that look random: (start, end), in order and apart."""
    hashes = {match.span() for match in _GRAPH.finditer(text)}
    tokens = [span for span in _tokens(text) if looks_random(text[slice(*span)])]
    parts: list[tuple[int, int]] = []
    more = () if _MANGLED.fullmatch(text) else (*_joined(text), *_short(text))
    for start, end in sorted({*tokens, *more} - hashes):
        if parts and start < parts[-1][1]:
            start, end = parts[-1][0], max(end, parts.pop()[1])
        parts.append((start, end))
    return parts


def _joined(text: str) -> Iterator[tuple[int, int]]:
    """Pieces of a token that has `_` among its letters, as base64 for URLs does."""
    for match in _BARS.finditer(text):
        begin = count = 0
        for piece in _PART.finditer(text, *match.span()):
            odd = _CASES.match(piece[0]) and score(piece[0]) >= 0.9 * len(piece[0])
            if odd:
                begin, count = begin if count else piece.start(), count + len(piece[0])
            elif len(piece[0]) > 2:
                count = 0
            if count >= _SHORTEST:
                yield begin, piece.end()


def _short(text: str) -> Iterator[tuple[int, int]]:
    """Ids of containers: 12 hexadecimal digits or more that are no list of types."""
    for match in _SHORT_HEX.finditer(text):
        if not _counts_up(match[0]) and score(match[0]) >= _LIMIT / 2:
            yield match.span()


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    """Where a token may be; in a mangled name only inside its identifiers."""
    if not _MANGLED.fullmatch(text):
        yield from (match.span() for match in _TOKEN.finditer(text))
        return
    at = 2
    while length := _LENGTH.match(text, at):
        at = length.end() + int(length[1])
        yield from (match.span() for match in _TOKEN.finditer(text, length.end(), at))


def looks_random(token: str) -> bool:
    """Whether no one would write this token for people or compilers to read."""
    if _SPECIFIED.fullmatch(token) and _counts_up(token):
        return False
    # hexadecimal digits of both kinds, or decimal digits alone
    keys = (run[0] for run in _HEX.finditer(token))
    if any(not key.isalpha() for key in keys):
        return True
    # folders are short words too, so base64 with slashes has to be longer
    if "/" in token:
        return bool(_ALL_KINDS.match(token)) and score(token) >= 2 * _LIMIT
    return score(token) >= _LIMIT


def _counts_up(token: str) -> bool:
    numbers = [int(number) for number in re.findall(r"\d{1,2}", token)]
    return numbers == list(range(len(numbers)))


def score(token: str) -> float:
    """The largest score of any stretch of the token."""
    most = current = 0.0
    for match in _PIECE.finditer(token):
        current = max(0.0, current + _weight(match))
        most = max(most, current)
    return most


def _weight(match: re.Match[str]) -> float:
    piece = match[0].lower()
    if match.lastgroup == "number":
        return _BREAK + _DIGIT * len(piece)
    if match.lastgroup == "shape" or (piece in _TERMS and len(piece) < 4):
        return 0.0
    return 3.0 - len(piece) if piece in _TERMS or _word(piece) else _BREAK + len(piece)


def _word(piece: str) -> bool:
    """Four letters or more, and three of four of its pairs are common."""
    pairs = sum(piece[at : at + 2] in _PAIRS for at in range(len(piece) - 1))
    return len(piece) >= 4 and pairs * 4 >= (len(piece) - 1) * 3
