"""Writes docs/guess.md from the code: `python tools/guess_page.py`."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from foretrace.analyze.guess import (
    expecting,
    fail_if,
    forecast,
    guess_files,
    job_kinds,
    kinds,
    marking,
    windows,
)
from foretrace.analyze.guess.grammar import QUANTIFIERS, SLOTS, Slot
from foretrace.analyze.guess.traits import described
from foretrace.analyze.guess.words import (
    DIRECTIONS,
    DTYPES,
    FAMILY_WORDS,
    LINEAR_WORDS,
    ORDINALS,
    UNITS,
)
from foretrace.schema.kernel import ROLES

PAGE = Path(__file__).parents[1] / "docs" / "guess.md"
EXAMPLES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("guess_examples.toml").read_text(encoding="utf-8")
)
JOB_EXAMPLES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("job_guess_examples.toml").read_text(encoding="utf-8")
)
INTRODUCTION = """\
# Predictions

<!-- Written by `python tools/guess_page.py`; change the code, not this page. -->

State what you expect, then look. A prediction is one sentence about a trace. foretrace marks it
**hit**, **miss** or **unknown**, with what was measured. Unknown means that the trace does not have
the data: a prediction about missing data is never a hit. A trace that is incomplete (cut, damaged,
or stopped by a limit) decides only what was read: `kernels > 3` hits when 5 were read,
`kernels == 0` misses, `kernels == 5` is unknown. A miss shows the part of the trace that decides it
and, where foretrace knows one, the likely reason.

    foretrace check trace.json.gz -g 'in mlp_fwd: kernels == 5' -g 'gelu and mul are fused'
    foretrace check trace.json.gz --guesses guesses.toml --against before.json.gz
    foretrace guess trace.json.gz                  # asks first, then shows
    foretrace guess eager.json.gz --then compiled.json.gz      # asks about the next trace
    foretrace guess --from trace.json.gz > guesses.toml
    foretrace guess --from trace.json.gz --json    # {"schema", "guesses": [{"text", "reason"}, …]}

Exit codes: 0 nothing missed; 1 something missed, or something is unknown and the variable `CI` is
set or `--strict` or `--need-data` is given; 2 a prediction cannot be parsed, or names a region or
step that the trace does not have: the others are marked all the same; 3 not a readable trace, or
`guess --from` on an incomplete one.

The first screen has the score and as many answers as fit; `--all` shows the evidence of every miss.

Free sentences work: `softmax is memory-bound`, `most of the time is spent in gemm`, `the GPU sits
idle 70% of the time, so it is launch bound`, `gemms and attention together make up 80% of the GPU
time`, `three matmuls per step, one forward and two backward`. foretrace looks for the subject, what
is measured, the comparison, the number and the place. It prints what it understood: `read as: …`.

- Ranges, modules, ops and kernels of the trace are words too: `MLP is slower than attention`.
- Hedges have a meaning: `about` is within 10%, `mostly` more than 50%, `nearly all` more than 90%,
  `practically no` less than 2%, `hundreds of` 200 to 2,000.
- An aside in brackets that only explains is not judged, and the answer names it. Nor is what a
  sentence starts from and does not claim: `eager vLLM, so …`.
- Harmless words are dropped: `I bet`, `clearly`, `in this run`, the name of this trace's card.
- A sentence is refused if it has a negation, a number, a place or a name that foretrace cannot use.
  Where it can be read without a few other words, the answer has that sentence and its verdict: `did
  you mean …? That is a hit`. Else it suggests a prediction about the same matter, and counts what
  the trace has of the nouns: ``In the whole trace, `cudaMalloc`: 24``.
- The verdict is unknown, with both figures, where two readings of a sentence differ. It is unknown,
  with the reason, for what no trace has: power, accuracy, tokens.
- A number copied from `look`, rounded as it is printed there, is a hit.
- Upper and lower case are the same, except in names.

One claim a sentence, in few words, is understood best. How much is understood was measured on
sentences in varied everyday words, half of them true, written without a look at this page or the
code; each set was judged once before anything was changed. Of 1,116 sentences about 139 traces
552 were right, 11 wrong, 104 unknown and 449 refused. Two further sets, kept apart, were judged
after what those showed: of 120 sentences 70 right, none wrong, 11 unknown, 39 refused. At last 312
were written as one would type them in a terminal, about 48 traces: 171 right, 4 wrong, 38 unknown
and 99 refused. All that were wrong are right now. So about a third of what is written in words of
one's own is still refused, and is answered with what is understood of it.

In `check --json` the `verdict` of a guess is `hit`, `miss`, `unknown` or `error`, and `expected` is
what it expects in symbols (`== 5`, `< 300 us`, `< 0.9x of A`, `fused`, `host`); for a prediction
without a comparison it is the prediction without its scope.
"""
ACROSS = """\
    foretrace guess eager.json.gz --then compiled.json.gz
    foretrace guess eager.json.gz --then compile > answers.txt      # before anything is compiled
    foretrace guess eager.json.gz --then compiled.json.gz --answers answers.txt

`--json` prints `a`, `b`, `per`, `fix`, `order`, `reason` and, for each quantity, `entries` with
`name`, `a`, `b`, and `you` and `replay` (`low`, `high`, `verdict`). The exit code is 1 when your
own guess missed. [What a step takes after a fix](whatif.md#the-next-trace) has two examples.
"""
JOBS = """\
A folder, zip or place in a store with several traces is a [job](jobs.md) of many ranks:

    foretrace check TRACES -g 'every rank: exposed comms < 10%' -g 'rank 3 is last'
    foretrace check TRACES --guesses job.toml

These predictions are marked on what `foretrace job TRACES` answers. Where ranks are missing or
files cannot be read, a prediction about all ranks can miss; it cannot hit.
"""
SCOPES = [
    ("(nothing)", "the whole trace"),
    ("`per step:`", "every `ProfilerStep#N`"),
    ("`per pass:`", "every step that launched anything; without steps the whole trace"),
    ("`in step 3:`", "`ProfilerStep#3`"),
    ("`in mlp_fwd:`", "every call of the `record_function` range"),
    ("`in LlamaMLP:`", "every forward of the modules of this class; `LlamaMLP_0` is one of them"),
    ("`in aten::linear:`", "every call of the op, with what it calls"),
    ("`in backward:`", "every range with the word in its name, else what each step launches there"),
    ('`in "a name with spaces":`', "quoted; `*` matches anything"),
]
SELECTORS = [
    (
        "kernels",
        "GPU kernels; `kernel NAME*` by name, `aten::mm kernels` those launched below an op",
    ),
    (", ".join(ROLES), "kernels by role; plurals work"),
    (
        "gelu, mul, softmax, …",
        "kernels that do this op, fused ones included; any ATen op's bare name",
    ),
    (
        "memcpy, memset",
        f"memcpys and memsets; {', '.join(DIRECTIONS)} before `memcpy` for one direction",
    ),
    ("aten::mm, op NAME", "host ops by name; `ops` is all of them"),
    ("cudaLaunchKernel, call NAME", "runtime and driver calls by name; `calls` is all of them"),
    ("launches, sync", "calls that launch a kernel or a graph; calls that wait for the GPU"),
    ("steps, region NAME", "ranges"),
    (
        "streams, casts, graphs, item",
        "streams that ran anything; kernels that only change the "
        "data type; launches of CUDA graphs; calls of aten::item",
    ),
    ("rmsnorm, rope, swiglu, geglu, loss, sdpa", "kernels of a part of the model"),
    ("backward, compute", "kernels that autograd launched; kernels that are not collectives"),
    ("cpu kernels", "on a CPU trace: ops that compute, and Inductor's C++ kernels"),
    (", ".join(LINEAR_WORDS), "in a list of kernels: a linear layer, that is any matmul"),
    ("distinct …", "names instead of launches"),
    (", ".join(ORDINALS), "one of them, in order of launch: `last gemm`"),
    (", ".join(DTYPES), "before a kernel word: type of the operands"),
    (", ".join(FAMILY_WORDS), "before a kernel word, or alone: family of names"),
    (
        "compute-bound, memory-bound, l2-bound, latency-bound, comms-bound, tensor-core",
        "before a kernel word, or after `is`",
    ),
]
SOURCES = {
    "name": "the kernel's name",
    "case": "the kernel's name",
    "launch": "its launch",
    "bound": "the roofline",
}


def page() -> str:
    """The whole page."""
    quantifiers = ", ".join(f"`{word}`" for word in QUANTIFIERS)
    slots = [(name.upper(), slot.meaning) for name, slot in all_slots().items()]
    fields = [(field.name, field.meaning, SOURCES[field.source]) for field in described()]
    units = [(name, ", ".join(units)) for name, units in UNITS.items() if name != "count"]
    known = [(f"`{one.example}`", one.text, one.source) for one in marking.every_reason()]
    parts = [
        INTRODUCTION,
        f"## Where\n\n{_body(windows.__doc__)}\n\n{_table(('scope', 'looks at'), SCOPES)}\n",
        "## Kinds of prediction\n",
        *(_kind(kind, EXAMPLES) for kind in kinds.every()),
        f"## Predictions about a job\n\n{JOBS}",
        *(_kind(kind, JOB_EXAMPLES, "job: ") for kind in job_kinds.every()),
        f"## Selectors\n\n{_table(('words', 'meaning'), SELECTORS)}\n",
        f"## What the capitals stand for\n\n{_table(('in a pattern', 'accepts'), slots)}\n\n"
        f"Quantifiers are {quantifiers}; `every` of nothing is unknown, `some` of nothing a miss, "
        "`no` of nothing a hit.\n",
        "## Fields\n\nEvery other field that `foretrace name NAME` prints works as well.\n\n"
        f"{_table(('field', 'meaning', 'from'), fields)}\n",
        f"## Units\n\n{_table(('of', 'units'), units)}\n",
        f"## Across a change\n\n{_body(forecast.__doc__)}\n\n{ACROSS}",
        f"## In a file\n\n{_body(guess_files.__doc__)}\n",
        f"## In Python\n\n{_body(expecting.__doc__)}\n",
        f"## Conditions of a comparison\n\n{_body(fail_if.__doc__)}\n",
        "## Reasons that foretrace knows\n\n"
        f"{_table(('a miss such as', 'likely reason', 'seen on'), known)}\n",
    ]
    return "\n".join(parts).rstrip() + "\n"


def all_slots() -> dict[str, Slot]:
    """The shared slots, then those of each kind."""
    own = [*(kind.slots for kind in kinds.every()), *(kind.slots for kind in job_kinds.every())]
    return SLOTS | {name: slot for slots in own for name, slot in slots.items()}


def _kind(kind: kinds.GuessKind, examples: dict[str, dict[str, str]], head: str = "") -> str:
    doc = _body(kind.measure.__doc__)
    # `{what:selector}` -> `SELECTOR`
    shown = (
        re.sub(r"\{\w+:(\w+)\}", lambda found: found[1].upper(), text) for text in kind.patterns
    )
    patterns = "\n".join(f"    {text}" for text in shown)
    rows = [(f"`{text}`", meaning) for text, meaning in examples[kind.name].items()]
    return (
        f"### {head}{kind.name}\n\n{doc}\n\n{patterns}\n\n{_table(('example', 'meaning'), rows)}\n"
    )


def _body(doc: str | None) -> str:
    return inspect.cleandoc(doc or "")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
