"""Predictions about a trace: written in plain words, measured, marked.

    ft.check(trace, ["in mlp_fwd: kernels == 5", "gelu and mul are fused"])     -> list[Verdict]
    ft.expect(trace).region("mlp_fwd").kernels == 5       -> a Verdict that is true when it hit

`docs/guess.md` lists the whole vocabulary. A kind of prediction is one function of `kinds/`.

Language: `words`, `grammar` (the formal one), `reading`, `lexicon` (free sentences), `parsing`
(both), `suggesting`, and the tables of `language.toml`. Evidence: `evidence`,
`windows`, `selection`. Marking: `kinds`, `marking`, `expecting`, `questions`, `fail_if`. Files:
`guess_files`, `baseline`, `snapshots`.
"""

from foretrace.check.expecting import expect
from foretrace.check.marking import check
from foretrace.check.parsing import Guess, parse
from foretrace.check.words import GuessError

__all__ = ["Guess", "GuessError", "check", "expect", "parse"]
