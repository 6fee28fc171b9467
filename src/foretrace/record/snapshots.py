"""Snapshots: the kernels of a trace as a multiset, written as sorted text for `git diff`.

    # foretrace kernels, sm90, torch 2.11, per step
    2  nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT
    1  triton_poi_fused__unsafe_view_gelu_mul

Names are normalised: no return type, no parameter list, no numbers that a compiler counts, no ATen
namespaces. On a CPU the lines are the ops that compute, and Inductor's C++ kernels. A snapshot
never contains times.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foretrace.base import files
from foretrace.base.patterns import regex
from foretrace.check.evidence import Evidence
from foretrace.check.holding import compiled_name
from foretrace.check.language import Scope, Unknown
from foretrace.check.windows import Window, windows_of
from foretrace.trace.cpu_ops import bare
from foretrace.trace.trace import Trace
from foretrace.work import families

_KEY = r"(?:(?:sm|gfx)\w+|cpu|gpu)(?:-torch[\d.]+)?"
_NAMESPACES = regex(
    r"\b(?:at::native|at|c10|std)::|\(anonymous namespace\)::|^void\s+|\[clone [^\]]{0,200}\]"
)


def kernels(trace: Trace) -> Counter[str]:
    """GPU operations by normalised name: of one step when all steps are the same, else of all.

    `Unknown` when the GPU was not recorded.
    """
    windows = windows_of(Scope(), Evidence(trace))
    bags = [_bag(window) for window in windows]
    return bags[0] if all(bag == bags[0] for bag in bags) else sum(bags, Counter())


def _bag(window: Window) -> Counter[str]:
    if window.evidence.trace.has("gpu"):
        names = [window.evidence.operation(row).name for row in window.rows.tolist()]
    elif window.evidence.trace.host.is_call.any():
        raise Unknown("the trace has launches but no GPU events: the profiler did not record any")
    else:
        working = window.events(window.evidence.computing)
        names = [window.evidence.name(event) for event in working.tolist()]
    return Counter(map(normal, names))


def normal(name: str) -> str:
    """A name without what changes from build to build and from graph to graph."""
    plain = re.sub(r"\s+", " ", _NAMESPACES.sub("", _without_parameters(name))).strip()
    return compiled_name(name) or plain or name


def _without_parameters(name: str) -> str:
    """Cut the last parentheses when the name ends with them."""
    if not name.endswith(")") or "::" not in name:
        return name
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place] or name
    return name


def to_text(bag: Mapping[str, int], title: str) -> str:
    """Sorted by name, so that another count is one changed line."""
    lines = [f"{count}  {name}" for name, count in sorted(bag.items())]
    return "\n".join([f"# foretrace kernels, {title}", *lines]) + "\n"


def from_text(text: str) -> Counter[str]:
    """The multiset that a snapshot's text holds."""
    bag: Counter[str] = Counter()
    for line in text.splitlines():
        count, _, name = line.strip().partition("  ")
        if name and count.isascii() and count.isdigit():
            bag[name.strip()] += int(count)
    return bag


@dataclass(frozen=True, slots=True)
class Difference:
    """Kernels added, removed, or changed in count or name: `changed` pairs old and new lines."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def lines(self) -> list[str]:
        """One line for each change."""
        return [
            *(f"removed  {line}" for line in self.removed),
            *(f"added    {line}" for line in self.added),
            *(line for was, now in self.changed for line in (f"changed  {was}", f"      to {now}")),
        ]


def difference(was: Mapping[str, int], now: Mapping[str, int]) -> Difference:
    """A name with another count is changed; so are a removed and an added kernel of the same role
    and count.
    """
    removed = {name: count for name, count in sorted(was.items()) if name not in now}
    added = {name: count for name, count in sorted(now.items()) if name not in was}
    both = [name for name in sorted(was) if name in now and now[name] != was[name]]
    changed = [(f"{was[name]} x {name}", f"{now[name]} x {name}") for name in both]
    for old, count in list(removed.items()):
        same = (name for name, number in added.items() if number == count)
        new = next((name for name in same if _replaces(name, old)), None)
        if new is not None:
            changed.append((f"{removed.pop(old)} x {old}", f"{added.pop(new)} x {new}"))
    came, went = (
        tuple(f"{count} x {name}" for name, count in bag.items()) for bag in (added, removed)
    )
    return Difference(came, went, tuple(changed))


def _replaces(new: str, old: str) -> bool:
    """Two names of one family and role: the library chose another kernel for the same op."""
    first, second = families.decode(old), families.decode(new)
    same_op = bare(str(first.get("op"))) == bare(str(second.get("op")))
    return first.family == second.family != "unknown" and first.role == second.role and same_op


class SnapshotFile:
    """The snapshot of `test` for the GPU architecture and torch version that recorded `trace`."""

    def __init__(self, folder: Path, test: str, trace: Trace, torch_version: str) -> None:
        arch = (trace.about.arch or "gpu") if trace.has("gpu") else "cpu"
        self.key = f"{arch}-torch{torch_version}" if torch_version else arch
        self._stem = file_stem(test)
        self.path = folder / f"{self._stem}.{self.key}.txt"

    def others(self) -> list[str]:
        """Keys of other machines that have a snapshot of this test."""
        names = sorted(path.name for path in self.path.parent.glob("*.txt"))
        found = [re.fullmatch(rf"{re.escape(self._stem)}\.({_KEY})\.txt", name) for name in names]
        return [match[1] for match in found if match and match[1] != self.key]

    def read(self) -> Counter[str]:
        """The kernels in the file."""
        return from_text(self.path.read_text(encoding="utf-8"))

    def write(self, kernels: Counter[str]) -> Path:
        """Write atomically: several processes can run tests at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        title = f"{self.key.replace('-torch', ', torch ')}, per step"
        files.write_text(self.path, to_text(kernels, title))
        return self.path


def file_stem(test: str) -> str:
    """A file name for a test id; a hash keeps ids apart that would share one."""
    stem = re.sub(r"[^A-Za-z0-9_.=-]+", "-", test.replace("::", ".")).strip("-")
    odd = re.search(r"[^A-Za-z0-9_.:=\[\]-]", test) or len(stem) > 150
    return f"{stem[:150]}-{hashlib.sha256(test.encode()).hexdigest()[:6]}" if odd else stem
