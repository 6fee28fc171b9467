"""Let a Transformers model use scaled_dot_product_attention in the place of written attention."""

from __future__ import annotations

from foretrace.record.tries.session import Applied, Session, Switch


class _Sdpa(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before = ""

    def why_not(self) -> str:
        module = self.session.outermost
        if not hasattr(module, "set_attn_implementation"):
            return "no Transformers model"
        kind = getattr(module.config, "_attn_implementation", None)
        return "" if kind == "eager" else f"attention is {kind} already"

    def turn(self, on: bool) -> None:
        if hasattr(module := self.session.outermost, "set_attn_implementation"):
            self._before = self._before or module.config._attn_implementation
            module.set_attn_implementation("sdpa" if on else self._before)


APPLIED = Applied(
    "sdpa",
    "scaled_dot_product_attention",
    'model.set_attn_implementation("sdpa")',
    _Sdpa,
    realises=("fused_attention",),
)
