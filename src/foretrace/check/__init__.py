"""Predictions: expressions over quantities of a recording.

    ft.check(trace, ["in mlp_fwd: kernels == 5", "fused(gelu, mul)"])     -> a verdict for each
    ft.expect(trace).region("mlp_fwd").kernels == 5       -> a verdict that is true when it hit

`language` parses, `judging` compares, `quantities` is the table of what there is to predict, and
`marking` works them out on a trace, `jobs` on a job and on results of `try`.
"""

from foretrace.check.marking import check

__all__ = ["check"]
