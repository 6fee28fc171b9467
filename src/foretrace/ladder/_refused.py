"""What torch refuses while a rung runs, as one line and the right exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from foretrace.errors import MissingError, UsageError

# A CPU's allocator has no error class of its own.
_NO_MEMORY = "can't allocate memory"


@contextlib.contextmanager
def refusals(name: str) -> Iterator[None]:
    """Sizes that torch or transformers refuses are wrong usage; too little memory and a failing
    compiler are missing things.
    """
    try:
        yield
    except (RuntimeError, ValueError, MemoryError) as problem:
        text = first_line(problem)
        if isinstance(problem, torch.OutOfMemoryError | MemoryError) or _NO_MEMORY in str(problem):
            raise MissingError(
                f"{name} does not fit into memory here: choose smaller sizes, or --small ({text})"
            ) from problem
        if type(problem).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise MissingError(f"torch.compile cannot compile {name} here: {text}") from problem
        raise UsageError(f"{name} does not run like this: {text}") from problem


def first_line(problem: Exception) -> str:
    """The error's class and what it tells first; Inductor's tell in the second line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    told = lines[:2] if lines and lines[0].endswith(":") else lines[:1]
    return f"{type(problem).__name__}: {' '.join(told)}"
