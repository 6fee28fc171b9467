"""Let a Transformers model use scaled_dot_product_attention in the place of written attention.

The configuration says which one a model uses, at each call. Attention that the script itself writes
out is left to the compiler, which knows the common forms.
"""

from __future__ import annotations

from typing import Any

import torch

from foretrace.record.tries.session import Applied, Session, Switch


class _Sdpa(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before: list[tuple[Any, str, bool]] = []  # configurations, outer ones first

    def why_not(self) -> str:
        models = self._models()
        if not models:
            return "no Transformers model"
        kinds = sorted({str(each.config._attn_implementation) for each in models})
        if "eager" not in kinds:
            return f"attention is {', '.join(kinds)} already"
        if not any(_takes(each) for each in models):
            return f"{type(models[0]).__name__} does not support scaled_dot_product_attention"
        return ""

    def turn(self, on: bool) -> None:
        if not self._before:
            models = self._models()
            self._before = [(m.config, m.config._attn_implementation, _takes(m)) for m in models]
        # to set one sets those inside it as well; they follow
        for config, kind, takes in self._before:
            config._attn_implementation = "sdpa" if on and takes else kind

    def _models(self) -> list[Any]:
        """The models with a configuration of their own, the outermost first."""
        found = self.session.modules(torch.nn.Module)
        named = [each for each in found if hasattr(each, "set_attn_implementation")]
        return list({id(each.config): each for each in reversed(named)}.values())[::-1]


def _takes(model: Any) -> bool:
    """Whether a model that writes its attention out can use the function."""
    able = model._supports_sdpa and model._can_set_attn_implementation()
    return bool(able) and model.config._attn_implementation == "eager"


APPLIED = Applied(
    "sdpa",
    "scaled_dot_product_attention",
    'model.set_attn_implementation("sdpa")',
    _Sdpa,
    realises=("fused_attention",),
)
