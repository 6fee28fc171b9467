"""Let the optimizer handle many parameters at once, where the script turned that off.

`foreach=False` runs a loop over the parameters with several kernels for each.
"""

from __future__ import annotations

from itertools import compress

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Applied, Switch


class _ForeachOptimizer(Switch):
    def why_not(self) -> str:
        if not self.session.optimizers:
            return "no optimizer"
        groups = [g for each in self.session.optimizers for g in each.param_groups]
        if not any(g.get("foreach", True) is False and not g.get("fused") for g in groups):
            return "the optimizer does not loop over its parameters"
        return ""

    def turn(self, on: bool) -> None:
        for each in self.session.optimizers:
            if each.defaults.get("foreach", True) is False and not each.defaults.get("fused"):
                for group in each.param_groups:
                    group["foreach"] = on

    def edits(self) -> list[Edit]:
        loops = (each.defaults.get("foreach", True) is False for each in self.session.optimizers)
        return self.added("foreach=True", compress(self.session.optimizers, loops))


APPLIED = Applied(
    "foreach_optimizer",
    "foreach optimizer",
    "AdamW(..., foreach=True)",
    _ForeachOptimizer,
    realises=("fused_optimizer", "foreach_loop"),
    devices=("cuda",),
    group="optimizer",
)
