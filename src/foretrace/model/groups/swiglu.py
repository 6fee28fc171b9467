"""SwiGLU: silu of one half times the other, in one kernel or two."""

from __future__ import annotations

from foretrace.model.groups._group import gated

GROUP = gated("SwiGLU", "silu", r"silu_?(and_?)?mul|swiglu|act_and_mul.*silu")
