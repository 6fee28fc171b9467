"""The rungs: each module declares `RUNG`; other packages add theirs as `foretrace.rungs`."""

from __future__ import annotations

import sys

from foretrace.base import plugins
from foretrace.base.errors import UsageError, nearest
from foretrace.schema.rung import Rung

# The order in which a user climbs; a rung from another package comes after these.
ORDER = ("matmul_add", "linear", "mlp", "attention", "block", "model", "train_step")


def rungs() -> list[Rung]:
    """Every rung, lowest first."""
    found = plugins.declared(sys.modules[__name__], "RUNG", Rung, "foretrace.rungs")
    place = {name: at for at, name in enumerate(ORDER)}
    return sorted(found, key=lambda rung: (place.get(rung.name, len(ORDER)), rung.name))


def rung(name: str) -> Rung:
    """The rung of that name."""
    known = {each.name: each for each in rungs()}
    if name in known:
        return known[name]
    hint = nearest(name, known, f"choose from {', '.join(known)}")
    raise UsageError(f"no rung named {name!r}: {hint}")
