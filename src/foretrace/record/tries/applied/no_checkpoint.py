"""Keep activations in the place of recomputing them, where the memory allows."""

from __future__ import annotations

from typing import Any

import torch.utils.checkpoint as checkpoints

from foretrace.record.tries.session import Applied, Session, Switch


class _NoCheckpoint(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._calls = 0
        original = checkpoints.checkpoint

        def checkpoint(function: Any, *arguments: Any, **options: Any) -> Any:
            self._calls += 1
            if not self.on:
                return original(function, *arguments, **options)
            ours = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop")
            rest = ("preserve_rng_state", *ours)
            return function(*arguments, **{k: v for k, v in options.items() if k not in rest})

        checkpoints.checkpoint = checkpoint

    def why_not(self) -> str:
        return "" if self._calls else "nothing is recomputed"


APPLIED = Applied(
    "no_checkpoint",
    "no checkpointing",
    "call the block directly: checkpoint(block, x) is block(x)",
    _NoCheckpoint,
    realises=("checkpoint",),
)
