"""Every error foretrace raises on purpose, as one tree.

    ForetraceError                 something a person can mend; printed as one line, never as a
                                   traceback
    ├── TraceError                 exit 3: the input is not a readable trace (has a code, a byte, a
                                   next step)
    │   └── LimitError             exit 3: a limit against hostile files stopped the load (names its
                                   flag)
    ├── UsageError                 exit 2: the request itself is wrong (a guess that does not parse,
                                   a missing region, a store
    │                              that says no)
    ├── TheirError                 exit 1: the user's own code raised; its traceback has been
                                   printed
    └── MissingError               exit 4: a device or an optional package is missing (names the
                                   install command)

One place prints them: `foretrace.cli.main`. It prints an `OSError` the same way (exit 2, with the
path), and an import that did not find its package (exit 4, with the command that installs it).
"""

from __future__ import annotations

from typing import ClassVar


class ForetraceError(Exception):
    """Base of everything raised on purpose. `exit_code` is part of the contract."""

    exit_code: ClassVar[int] = 3


class TraceError(ForetraceError):
    """The input cannot be read as a trace.

    `code` is a stable word (`E_EMPTY`, `E_NOT_A_TRACE`, ...), `offset` the byte where reading
    stopped being possible, `hint` what to do next.
    """

    exit_code = 3

    def __init__(
        self, code: str, path: str, message: str, *, offset: int | None = None, hint: str = ""
    ) -> None:
        self.code, self.path, self.message, self.offset, self.hint = (
            code,
            path,
            message,
            offset,
            hint,
        )
        super().__init__(self.one_line())

    def one_line(self) -> str:
        # a path may hold newlines
        shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in self.path)
        where = shown if self.offset is None else f"{shown}: byte {self.offset:,}"
        tail = f"; {self.hint}" if self.hint else ""
        return f"{where}: {self.message} [{self.code}]{tail}"


class LimitError(TraceError):
    """A resource limit stopped the load."""


class UsageError(ForetraceError):
    """The request is wrong: the input may be fine."""

    exit_code = 2


class TheirError(ForetraceError):
    """Code that a person handed in raised. Its traceback is printed where it is caught, as Python
    would have.
    """

    exit_code = 1


class MissingError(ForetraceError):
    """A device or an optional package is missing; the message names the command that supplies it."""

    exit_code = 4
