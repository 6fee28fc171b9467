"""Writes the manual of the language from the code that reads it:
`python -m foretrace.guess.manual > docs/guess.md`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator

from foretrace.guess import expecting, files, reason, scope
from foretrace.guess.amounts import UNITS
from foretrace.guess.fields import described
from foretrace.guess.marking import kinds
from foretrace.guess.reading import Kind
from foretrace.guess.slots import QUANTIFIERS, SLOTS
from foretrace.guess.things import DIRECTIONS, DTYPES, FAMILY_WORDS, LINEAR_WORDS, ORDINALS
from foretrace.schema.kernel import ROLES

INTRODUCTION = """\
# Predictions

<!-- Written by `python -m foretrace.guess.manual`; change the code, not this page. -->

State what you expect, then look. A prediction is one sentence about a trace; it is marked **hit**, **miss** or **unknown**,
with what was measured. Unknown means that the trace does not hold the data: no prediction about absent data is ever a hit.
Of a trace that is not whole (cut, damaged, or stopped by a limit) only what was seen is decided: `kernels > 3` hits when 5 were
seen, `kernels == 0` misses, `kernels == 5` is unknown.
A miss shows the part of the trace that decides it and, where foretrace knows one, the likely reason.

    foretrace check trace.json.gz -g 'in mlp_fwd: kernels == 5' -g 'gelu and mul are fused'
    foretrace check trace.json.gz --guesses guesses.toml --against before.json.gz
    foretrace guess trace.json.gz                  # asks first, then shows
    foretrace guess --from trace.json.gz > guesses.toml
    foretrace guess --from trace.json.gz --json    # {"schema": 1, "guesses": [{"text", "reason"}, …]}

Exit codes: 0 nothing missed, 1 something missed (with `--need-data` also when something is unknown), 2 a prediction cannot be
read, 3 not a readable trace, or `guess --from` on one that is not whole. Capital and small letters are the same,
except in names.

In `check --json` the `expected` of a guess is what it wants in symbols (`== 5`, `< 300 us`, `< 0.9x of A`, `fused`,
`overhead`); a prediction without a comparison stands there itself, without its place.
"""


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        _places(),
        "## Kinds of prediction\n",
        *(_kind(kind) for kind in kinds()),
        _things(),
        _slots(),
        _fields(),
        _units(),
        _file(),
        _python(),
        _reasons(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _places() -> str:
    rows = [
        ("(nothing)", "the whole trace"),
        ("`per step:`", "every `ProfilerStep#N`"),
        ("`in step 3:`", "`ProfilerStep#3`"),
        ("`in mlp_fwd:`", "every call of the `record_function` range"),
        ("`in aten::linear:`", "every call of the op, with what it calls"),
        ('`in "a name with spaces":`', "quoted; `*` stands for anything"),
    ]
    return f"## Where\n\n{_body(scope.__doc__)}\n\n{_table(('place', 'looks at'), rows)}\n"


def _kind(kind: Kind) -> str:
    doc = _body(inspect.getdoc(sys.modules[kind.measure.__module__]))
    patterns = "\n".join(f"    {_readable(pattern)}" for pattern in kind.patterns)
    rows = [(f"`{text}`", meaning) for text, meaning in kind.examples.items()]
    return f"### {kind.name}\n\n{doc}\n\n{patterns}\n\n{_table(('example', 'meaning'), rows)}\n"


def _readable(pattern: str) -> str:
    """`{what:things}` -> `THINGS`."""
    return re.sub(r"\{\w+:(\w+)\}", lambda found: found[1].upper(), pattern)


def _things() -> str:
    rows = [
        (
            "kernels",
            "GPU kernels; `kernel NAME*` by name, `aten::mm kernels` those launched below an op",
        ),
        (", ".join(ROLES), "kernels by role; plurals are understood"),
        (
            "gelu, mul, softmax, …",
            "kernels that do this op, fused ones included; any ATen op's bare name",
        ),
        (
            "memcpy, memset",
            f"copies and fills; {', '.join(DIRECTIONS)} before `memcpy` for one direction",
        ),
        ("aten::mm, op NAME", "host ops by name; `ops` is all of them"),
        ("cudaLaunchKernel, call NAME", "runtime and driver calls by name; `calls` is all of them"),
        (
            "launches, sync",
            "calls that put a kernel or a graph on the GPU; calls that wait for the GPU",
        ),
        ("steps, region NAME", "ranges"),
        ("cpu kernels", "on a CPU trace: ops that compute, and Inductor's C++ kernels"),
        (
            ", ".join(LINEAR_WORDS),
            "in a list of kernels: a linear layer, that is any matrix product",
        ),
        ("distinct …", "names instead of launches"),
        (", ".join(ORDINALS), "one of them, in order of launch: `last gemm`"),
        (", ".join(DTYPES), "before a kernel word: type of the operands"),
        (", ".join(FAMILY_WORDS), "before a kernel word, or alone: family of names"),
        (
            "compute-bound, memory-bound, comms-bound, tensor-core",
            "before a kernel word, or after `is`",
        ),
    ]
    return f"## Things\n\n{_table(('words', 'meaning'), rows)}\n"


def _slots() -> str:
    rows = [(name.upper(), slot.meaning) for name, slot in SLOTS.items()]
    words = ", ".join(f"`{word}`" for word in QUANTIFIERS)
    return (
        "## What the capitals stand "
        f"for\n\n{_table(('in a pattern', 'accepts'), rows)}\n\nQuantifiers are {words}; "
        "`every` of nothing is unknown, `some` of nothing a miss, `no` of nothing a hit.\n"
    )


def _fields() -> str:
    rows = [
        (
            field.name,
            field.meaning,
            {
                "name": "the kernel's name",
                "case": "the kernel's name",
                "launch": "its launch",
                "bound": "the roofline",
            }[field.source],
        )
        for field in described()
    ]
    return (
        "## Fields\n\nAny other field that `foretrace name NAME` prints can be asked for as "
        "well.\n\n"
        f"{_table(('field', 'meaning', 'from'), rows)}\n"
    )


def _units() -> str:
    rows = [(name, ", ".join(units)) for name, units in UNITS.items() if name != "count"]
    return f"## Units\n\n{_table(('of', 'units'), rows)}\n"


def _file() -> str:
    return f"## In a file\n\n{_body(files.__doc__)}\n"


def _python() -> str:
    return f"## In Python\n\n{_body(expecting.__doc__)}\n"


def _reasons() -> str:
    rows = [(f"`{known.example}`", known.text, known.source) for known in reason.every()]
    return (
        "## Reasons that foretrace "
        f"knows\n\n{_table(('a miss such as', 'likely reason', 'seen on'), rows)}\n"
    )


def _body(doc: str | None) -> str:
    return inspect.cleandoc(doc or "")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def lines() -> Iterator[str]:
        titles = list(head)
        yield "| " + " | ".join(titles) + " |"
        yield "|" + "---|" * len(titles)
        for row in rows:
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"

    return "\n".join(lines())


if __name__ == "__main__":
    sys.stdout.write(page())
