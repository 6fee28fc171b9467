"""Limits against hostile files. Real traces stay far below every one of them; each can be raised.

The defaults leave two orders of magnitude above what 56 public traces showed: depth 6, strings of
5,123 characters, events of 6.9 kB, compression 29:1.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


class Limits(Struct, frozen=True):
    """How much of a file is read before it is refused; sizes in bytes."""

    bytes: int = 16 << 30  # uncompressed
    ratio: int = 200  # uncompressed : compressed, once past `RATIO_FREE_BYTES`
    events: int = 100_000_000
    depth: int = 64
    string: int = 16 << 20
    args: int = 10_000
    event: int = 64 << 20
    members: int = 64  # of a zip
    seconds: int = 0  # 0: in proportion to the file, as `sources.budget` has it
    memory: int = 0  # that may be added to the process; 0 as above


RATIO_FREE_BYTES = 64 << 20  # small files may compress as well as they like


def raised_by(name: str) -> str:
    """The hint for whoever trusts a file that a limit stopped."""
    return f"raise it with --limit {name}=NUMBER"


def keeps_everything(limits: Limits) -> bool:
    """Whether a file that is read under these limits gives what the defaults give."""
    return replace(limits, seconds=0, memory=0) == Limits()


def parse_limits(settings: tuple[str, ...]) -> Limits:
    """`("bytes=64GiB", "depth=200")` -> Limits; a usage error lists the names."""
    names = Limits.__struct_fields__
    changes: dict[str, int] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        match = re.fullmatch(r"(\d+)\s*([a-zA-Z]*)", value.strip())
        if name not in names or match is None or match[2].lower() not in _UNITS:
            known = ", ".join(names)
            raise UsageError(f"--limit {setting!r}: write NAME=NUMBER with NAME one of {known}")
        changes[name] = int(match[1]) * _UNITS[match[2].lower()]
        if not changes[name]:
            raise UsageError(f"--limit {setting!r}: a limit is at least 1")
    return Limits(**changes)
