"""Text of torch.compile's logs that may leave: graphs, generated code, reasons.

Code is not prose: `x0//128` is no path, and `token = embedding(x)` gives no secret away. So code is
cut into strings, comments and the rest. A string without spaces is cleaned as a name is, any other
is left out unless it is the type of a tensor. A comment stays if Inductor wrote it. Of the rest,
each name is cleaned by itself. A line of the user's code follows the rule for stacks: its file is a
pseudonym, its number stays, the function and the code stay only where stacks are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from foretrace.base.private import hide_addresses, hide_keys, hide_paths
from foretrace.base.private.chance import words
from foretrace.show.share.pseudonyms import Pseudonyms

_NEXT = re.compile(r"'''|\"\"\"|['\"#]|//")
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.)*+{quote}") for quote in "'\""}
_TENSOR = re.compile(
    r"\w{1,12}(?:\[[\w ,*+/()^-]{0,400}\]){1,2}[\w:]{0,16}|Sym\([\w ,*+/()^-]{1,400}\)"
)
_WORD = re.compile(r"\S{0,256}")
# What Inductor itself writes into comments, from a comment's first letter on.
_COMMENT = re.compile(
    r"\s*(?:AOT ID|Topologically Sorted|Source [Nn]ode|Original ATen|Graph fragment|\[Provenance"
    r"|%|return |kernel path|File: |reuse|No stacktrace|Unsorted|\w{0,256} => )"
)
_USERS_KERNEL = "user_autotune"  # a Triton kernel of the user, with its source
_CPP = ("#include", 'extern "C"', "#pragma")
_FILE = re.compile(r"File: (?P<file>[^\n]{1,4096}?):(?P<line>\d{1,9}) in (?P<rest>[^\n]*)")
_FRAME = re.compile(r'^( *)File "([^"\n]{1,4096})", line (\d{1,9}), in [^\n]*$')
_RESUMED = "torch_dynamo_resume_in_"
_FUNCTION = re.compile(r"(?<=Recompiling function )\S{1,256}(?= in )")
# A place in a sentence, and pages that say the same to everybody.
_PLACE = re.compile(r"(?<![\w./@~+-])(?P<file>[\w./@~+-]{1,1024}\.py):(?P<line>\d{1,9})(?!\d)")
_PAGE = re.compile(
    r"https://(?:meta-pytorch\.github\.io/compile-graph-break-site|(?:docs\.)?pytorch\.org)/[\w./#-]{0,200}+"
)
_ABSOLUTE = re.compile(
    r"(?<![\w/)\].@~+-])[~/][\w.@~+-]++(?:/[\w.@~+-]++)++|(?<![\w:])[A-Za-z]:\\[^\s'\"]++"
)
_DIVISION = re.compile(r"[\w.+-]++(?://[\w.+-]++)++|numel/rnumel")
_CHUNK = re.compile(r"[A-Za-z0-9_][\w.+/=-]*+")
_NAME = re.compile(r"[^\W\d]\w*+")
_LONG = re.compile(r"(?<![\w.])\d{16,}+|(?<=\.)\d{13,}+")


# Words of the code that Inductor writes: replacing a name that is one of them would break the code.
CODE_WORDS = words("""
    add addmm alloc allocated args arg aten async atomic at autotune backend baddbmm base block bmm
    body bool buf buffer call class code compile compiled computed config constant convolution copy
    cpp cpu cuda def del dep device div dtype element empty exp extern fallback false float for from
    full fuse fused fusion generated get graph grid group guards heuristics id import in index
    indirect inductor inner input int item kernel kernels kwargs lambda layout len list load loop
    lowered mask maximum mean memory meta mm module mul name node none numel op ops origin out outer
    output params partition persistent pointwise pool prim program ptr range read reads reduction
    reinterpret relu return rsqrt run runner scheduler self set shape sigmoid signature size sizes
    slice softmax sort split star static store stride strided stream sub sum symbolic tanh target
    template tensor tiling tmp torch total triton true tuple type types unsafe user users value
    values var vec vectorized view wait warps weak where while workspace wrapper write writes xblock
    yblock xnumel ynumel
""")


class CodeText:
    """Cleans the texts of a log; `stacks` says whether functions and lines of code may stay."""

    def __init__(self, private: Pseudonyms, *, stacks: bool) -> None:
        self.private, self.stacks = private, stacks
        self._known: dict[str, str] = {}  # pieces of code, most of which come again and again

    def code(self, text: str) -> str:
        """A graph, a wrapper, or a kernel inside one."""
        if "'''" in text:  # a wrapper around others
            return "".join(self._parts(text, cpp=False))
        if _USERS_KERNEL in text:
            self.private.left_out["source"] += not self.stacks
            return self.prose(text) if self.stacks else "\n"
        return "".join(self._parts(text, cpp=any(word in text for word in _CPP)))

    def prose(self, text: str) -> str:
        """A message for people: a line is cleaned as a name is; code below a frame is left out."""
        shown, below_frame = list[str](), False
        for line in text.split("\n"):
            frame = _FRAME.match(line)
            if frame:
                shown.append(
                    f'{frame[1]}File "{self.file(frame[2])}", line {frame[3]}, in function'
                )
            elif below_frame and line.startswith("    ") and not self.stacks:
                self.private.left_out["source"] += 1
                shown.append("    ")
            else:
                shown.append(self._sentence(line))
            below_frame = frame is not None
        return "\n".join(shown)

    def _sentence(self, line: str) -> str:
        line = line if self.stacks else _FUNCTION.sub("function", line)
        kept = [*_PAGE.finditer(line), *_PLACE.finditer(line)]
        parts, done = list[str](), 0
        for match in sorted(kept, key=re.Match.start):
            if match.start() >= done:
                parts += [self._plain(line[done : match.start()]), self._shown(match)]
                done = match.end()
        return "".join((*parts, self._plain(line[done:])))

    def _shown(self, match: re.Match[str]) -> str:
        return match[0] if match.re is _PAGE else f"{self.file(match['file'])}:{match['line']}"

    def _plain(self, text: str) -> str:
        return self._literals(self.private.clean(text))

    def reasons(self, text: str) -> str:
        """A message of the scheduler: it has code in it, and a line with an address is prose."""
        return "\n".join(
            self.prose(line) if _says_who(line) else self.code(line) for line in text.split("\n")
        )

    def file(self, name: str) -> str:
        """The name of a file; that of a public package is its path inside the package."""
        return self.private.clean(name)

    def function(self, name: str) -> str:
        """The name of a function, or its source; that a graph break made a function stays."""
        start, _, line = name.rpartition("_at_")
        if self.stacks:
            return self.private.clean(name)
        resumed = start.startswith(_RESUMED) and line.isdecimal()
        return f"{_RESUMED}function_at_{line}" if resumed else ""

    def _parts(self, text: str, *, cpp: bool) -> Iterator[str]:
        done = 0
        while match := _NEXT.search(text, done):
            start, sign = match.span()[0], match[0]
            end = self._end(text, start, sign, cpp=cpp)
            yield self._names(text[done:start])
            yield self._special(text[start:end], sign) if end > start + len(sign) else sign
            done = max(end, start + len(sign))
        yield self._names(text[done:])

    def _end(self, text: str, start: int, sign: str, *, cpp: bool) -> int:
        """Where a string or a comment ends; its start where the sign begins neither."""
        if len(sign) == 3:
            end = text.find(sign, start + 3)
            return len(text) if end < 0 else end + 3
        if sign in _QUOTED:
            quoted = _QUOTED[sign].match(text, start + 1)
            return quoted.end() if quoted else start
        if (sign == "//") is not cpp:
            return start
        end = text.find("\n", start)
        return len(text) if end < 0 else end

    def _special(self, text: str, sign: str) -> str:
        if len(sign) == 3:
            return f"{sign}{self.code(text[3:-3])}{sign}"
        if sign in _QUOTED:
            return f"{sign}{self._literal(text[1:-1])}{sign}"
        return self._comment(text, sign)

    def _comment(self, text: str, sign: str) -> str:
        body = text[len(sign) :]
        if not _COMMENT.match(body):
            self.private.left_out["comment"] += bool(body.strip())
            return sign
        if _FILE.search(body):
            return sign + _FILE.sub(self._source, body)
        shown = self.private.clean(body) if _says_who(body) else self._names(body)
        return sign + self._literals(shown)

    def _source(self, match: re.Match[str]) -> str:
        where = f"File: {self.file(match['file'])}:{match['line']} in"
        return (
            f"{where} {self.private.clean(match['rest'])}"
            if self.stacks
            else f"{where} function, code: "
        )

    def _literals(self, text: str) -> str:
        """The text with every string in it cleaned."""
        for quote in "'\"":
            text = re.sub(rf"{quote}([^{quote}\n]*+){quote}", self._requoted(quote), text)
        return text

    def _requoted(self, quote: str) -> Callable[[re.Match[str]], str]:
        return lambda match: f"{quote}{self._literal(match[1])}{quote}"

    def _literal(self, text: str) -> str:
        if _TENSOR.fullmatch(text):
            return text
        if _WORD.fullmatch(text):
            return self.private.clean(text)
        self.private.left_out["value"] += 1
        return ""

    def _names(self, text: str) -> str:
        """Code without strings: names are cleaned one by one, and no path or address stays."""
        text = _ABSOLUTE.sub(lambda match: self.private.clean(match[0]), text)
        return _CHUNK.sub(lambda match: self._chunk(match[0]), text)

    def _chunk(self, text: str) -> str:
        if text not in self._known:
            shown = _LONG.sub(lambda match: match[0][:12], hide_keys(text, self._key))
            shown = self.private.without_names(shown)
            shown = _NAME.sub(lambda match: self.private.clean(match[0]), shown)
            self._known[text] = shown
        return self._known[text]

    def _key(self, text: str) -> str:
        return self.private.clean(f"key={text}").removeprefix("key=")


def _says_who(line: str) -> bool:
    """Whether a line holds what looks like a key, an address or a path: then it is no code."""
    rules = (hide_keys, hide_addresses, hide_paths)
    return any(rule(line, _no_code) != line for rule in rules)


def _no_code(text: str) -> str:
    return text if _DIVISION.fullmatch(text) else ""
