"""Text of torch.compile's logs that may leave: graphs, generated code, reasons.

Code is not prose: `x0//128` is no path, and `token = embedding(x)` gives no secret away. So code is
cut into strings, comments and the rest. A string without spaces is cleaned as a name is, any other
is left out unless it is the type of a tensor. A comment stays if Inductor wrote it. Of the rest, each
name is cleaned by itself. A line of the user's code follows the rule for stacks: its file is a
pseudonym, its number stays, the function and the code stay only where stacks are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from foretrace.private import hide_addresses, hide_keys
from foretrace.share.pseudonyms import Pseudonyms

_NEXT = re.compile(r"'''|\"\"\"|['\"#]|//")
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.)*+{quote}") for quote in "'\""}
_TENSOR = re.compile(
    r"\w{1,12}(?:\[[\w ,*+/()^-]{0,400}\]){1,2}[\w:]{0,16}|Sym\([\w ,*+/()^-]{1,400}\)"
)
_WORD = re.compile(r"\S{0,256}")
# What Inductor itself writes into comments, from a comment's first letter on.
_COMMENT = re.compile(
    r"\s*(?:AOT ID|Topologically Sorted|Source [Nn]ode|Original ATen|Graph fragment|\[Provenance"
    r"|%|return |kernel path|File: |reuse|No stacktrace|Unsorted|while_loop|conditional|End)"
)
_USERS_KERNEL = "user_autotune"  # a Triton kernel of the user, with its source
_CPP = ("#include", 'extern "C"', "#pragma")
_FILE = re.compile(r"File: (?P<file>[^\n]{1,4096}?):(?P<line>\d{1,9}) in (?P<rest>[^\n]*)")
_FRAME = re.compile(r'^( *)File "([^"\n]{1,4096})", line (\d{1,9}), in [^\n]*$')
_PLACE = re.compile(r"((?:Recompiling function|code at|in user code at) ?)(?:\S{1,256} in )?(?=\S)")
_ABSOLUTE = re.compile(
    r"(?<![\w/)\]])[~/](?=[\w.@~+-])[\w.@~+-]*+(?:/[\w.@~+-]++)++|[A-Za-z]:\\[^\s'\"]++"
)
_CHUNK = re.compile(r"[A-Za-z0-9_][\w.+/=-]*+")
_NAME = re.compile(r"[^\W\d]\w*+")
_LONG = re.compile(r"(?<![\w.])\d{16,}+|(?<=\.)\d{13,}+")


class CodeText:
    """Cleans the texts of a log; `stacks` says whether functions and lines of code may stay."""

    def __init__(self, private: Pseudonyms, *, stacks: bool) -> None:
        self.private, self.stacks = private, stacks

    def code(self, text: str) -> str:
        """A graph, a wrapper, or a kernel inside one."""
        if _USERS_KERNEL in text[:20_000] and "'''" not in text and not self.stacks:
            self.private.left_out["source"] += 1
            return "\n"
        cpp = any(word in text[:4000] for word in _CPP) and "'''" not in text
        return "".join(self._parts(text, cpp=cpp))

    def prose(self, text: str) -> str:
        """A message for people: every line is cleaned as a name is; code below a frame is left out."""
        shown, below_frame = list[str](), False
        for line in text.split("\n"):
            frame = _FRAME.match(line)
            if frame:
                shown.append(
                    f'{frame[1]}File "{self.file(frame[2])}", line {frame[3]}, in function'
                )
            elif below_frame and line.startswith("    ") and not self.stacks:
                self.private.left_out["source"] += 1
            else:
                named = line if self.stacks else _PLACE.sub(_without_function, line)
                shown.append(self._literals(self.private.clean(named)))
            below_frame = frame is not None
        return "\n".join(shown)

    def reasons(self, text: str) -> str:
        """A message of the scheduler: it has code in it, and a line with an address is prose."""
        return "\n".join(
            self.code(line)
            if hide_keys(line, str) == line == hide_addresses(line, lambda found: "")
            else self.prose(line)
            for line in text.split("\n")
        )

    def file(self, name: str) -> str:
        """The name of a file; that of a public package is its path inside the package."""
        return self.private.clean(name)

    def function(self, name: str) -> str:
        """The name of a function, or its source."""
        return self.private.clean(name) if self.stacks else ""

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
        if not _FILE.search(body):
            return sign + self._names(self._literals(body))
        return sign + _FILE.sub(self._source, body)

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
        text = _CHUNK.sub(lambda match: hide_keys(match[0], self._key), text)
        text = _LONG.sub(lambda match: match[0][:12], text)
        return _NAME.sub(lambda match: self.private.clean(match[0]), text)

    def _key(self, text: str) -> str:
        return self.private.clean(f"key={text}").removeprefix("key=")


def _without_function(match: re.Match[str]) -> str:
    return match[1]
