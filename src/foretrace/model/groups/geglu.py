"""GeGLU: gelu of one half times the other, in one kernel or two."""

from __future__ import annotations

from foretrace.model.groups._group import gated

GROUP = gated("GeGLU", "gelu", r"gelu_?(and_?)?mul|geglu|act_and_mul.*gelu")
