"""The ladder: from one matrix product to a training step, one file per rung.

Each public module of this package declares `RUNG`, a `foretrace.schema.rung.Rung`; other packages
add theirs through the entry-point group `foretrace.rungs`. Listing them needs no torch: only
`Rung.build` imports it.

`run` runs one rung; `climb_recorded` and `climb_here` go up the whole ladder and mark the articles'
claims on the way.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from foretrace import plugins
from foretrace.errors import UsageError
from foretrace.profiling import need_torch
from foretrace.schema.rung import Choice, Rung

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from foretrace.ladder._shapes import Shapes
    from foretrace.ladder._trials import Trials
    from foretrace.ladder._whole import Climb
    from foretrace.profiling.window import Capture

# The order in which a person climbs; a rung from elsewhere comes after these.
ORDER = ("matmul_add", "linear", "mlp", "attention", "block", "model", "train_step")


def rungs() -> list[Rung]:
    """Every rung, lowest first."""
    found = plugins.declared(sys.modules[__name__], "RUNG", Rung, "foretrace.rungs")
    return sorted(
        found,
        key=lambda rung: (ORDER.index(rung.name) if rung.name in ORDER else len(ORDER), rung.name),
    )


def rung(name: str) -> Rung:
    """The rung of that name."""
    known = {each.name: each for each in rungs()}
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    raise UsageError(f"no rung is called {name!r}: {hint}")


def run(
    rung: Rung, choice: Choice, folder: str | os.PathLike[str] = "traces", **capture: Any
) -> Capture:
    """Run one rung and capture it into `folder`; `capture` are options of
    `foretrace.profiling.calls.capture_call`.
    """
    need_torch()
    from foretrace.ladder._climb import climb
    from foretrace.ladder._refused import refusals

    with refusals(rung.name):
        return climb(rung, choice, folder, **capture)


def climb_recorded(card: str = "h200", only: Sequence[str] = ()) -> Climb:
    """Mark every claim on the traces inside the package, of the rungs in `only` or of all; needs no
    torch and no GPU.
    """
    from foretrace.ladder import _whole

    return _whole.climb_recorded(card, only)


def climb_here(
    folder: Path, device: str = "auto", only: Sequence[str] = (), say: Callable[[str], None] = print
) -> Climb:
    """Run every rung on this machine, keep the traces in `folder`, and mark every claim on them;
    `say` is told each stop.
    """
    need_torch()
    from foretrace.ladder import _whole

    return _whole.climb_here(folder, device, only, say)


def shapes(
    rung: Rung,
    sweeps: Sequence[str] = (),
    names: Sequence[str] = (),
    choice: Choice | None = None,
    keep_cache: bool = False,
    say: Callable[[str], None] = print,
) -> Shapes:
    """Run the rung over a sweep of shapes (`name=value,value`) in each way of `names`, or all;
    `say` is told each visit.
    """
    need_torch()
    from foretrace.ladder import _shapes, _sweep

    choice = choice or Choice()
    visited = _sweep.swept(rung, sweeps, small=choice.small)
    if len(visited) < 2 and not sweeps:
        raise UsageError(f"{rung.name} has no usual sweep: name one, --sweep NAME=VALUE,VALUE")
    return _shapes.visit_shapes(
        rung, visited, _shapes.contenders(rung, names), choice, keep_cache, say
    )


def worth(
    subject: str,
    folder: Path,
    modes: Sequence[str] = ("default",),
    sweeps: Sequence[str] = (),
    shapes: str = "",
    choice: Choice | None = None,
    keep_cache: bool = False,
    say: Callable[[str], None] = print,
) -> Trials:
    """Try torch.compile in each of `modes` on a rung or on `module:callable`, beside eager; traces
    go to `folder`.

    `sweeps` (`name=value,value`) and `choice` are for a rung, `shapes` (`8x128,16x128`) for a
    callable.
    """
    need_torch()
    from foretrace.ladder import _given, _sweep, _worth

    if ":" in subject:
        if sweeps or choice not in (None, Choice()):
            raise UsageError(
                "sizes, device, type and seed are for rungs: your own code decides them, and "
                "--shapes hands it "
                "numbers"
            )
        made = _worth.of_code(subject, _given.parse_shapes(shapes))
    else:
        if shapes:
            raise UsageError(
                "--shapes is for your own module:callable: a rung takes --sweep NAME=VALUE,VALUE"
            )
        chosen, choice = rung(subject), choice or Choice()
        made = _worth.of_rung(
            chosen, _sweep.swept(chosen, sweeps, small=choice.small) if sweeps else ({},), choice
        )
    return _worth.try_modes(made, modes, folder, keep_cache, say)
