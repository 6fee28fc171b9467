"""Predictions about a trace: written in plain words, measured, marked.

    ft.check(trace, ["in mlp_fwd: kernels == 5", "gelu and mul are fused"])     -> list[Verdict]
    ft.expect(trace).region("mlp_fwd").kernels == 5       -> a Verdict that is true when it hit

`docs/guess.md` lists the whole vocabulary. A kind of prediction is one file of `kinds/`, a known
reason for a miss one function of `reasons`.

Language: `tokens`, `amounts`, `selectors`, `fields`, `grammar`. Evidence: `evidence`, `scope`,
`selection`, `measures`. Marking: `kinds`, `marking`, `reasons`, `expecting`, `questions`, `gate`.
Files: `guess_files`, `snapshots`, `claims`.
"""

from foretrace.analyze.guess.expecting import expect
from foretrace.analyze.guess.marking import Guess, check, parse
from foretrace.analyze.guess.tokens import GuessError

__all__ = ["Guess", "GuessError", "check", "expect", "parse"]
