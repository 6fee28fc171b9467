"""Where a step goes, why, and what to do: the answer of `foretrace look` as data.

found = foretrace.look("llama")
found.verdict.first  # what to do first
found.step.ns, found.fixes[0].ns  # a step without the profiler, now and with the first fix
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foretrace.look.documents import Look, Overview
from foretrace.trace.opening import opened

if TYPE_CHECKING:
    from foretrace.look.measured_step import MeasuredStep
    from foretrace.look.steering import Steering
    from foretrace.trace.trace import Trace


def look(trace: Trace | str | os.PathLike[str]) -> Look:
    """The document of `foretrace look --json`: typed, as in `look(trace).totals.kernels`.

    `trace` may be a path or the name of a recording. Printed, it is the first screen.
    """
    return summarize(opened(trace)).look


def _part(trace: Trace, found: Look, step: MeasuredStep | None) -> str:
    """Said before figures where the end of the file, or of the script, is missing from them."""
    from foretrace.trace.cpu_ops import cpu_call
    from foretrace.trace.gpu import EVER

    call = cpu_call(trace) if found.cpu else None
    spans = step.spans if step is not None else [call] if call is not None else []
    if trace.cut_ns == -EVER or any(each.end_ns <= trace.cut_ns for each in spans):
        return ""
    return f"a part of a {('step' if found.steps else 'call') if spans else 'recording'} only: "


def summarize(trace: Trace, steering: Steering | None = None) -> Overview:
    """The document, what each region launches, and the summary in sentences. `steering` says which
    rules and fixes the user wants to hear of: all of them.
    """
    from foretrace.look import lines
    from foretrace.look.document import document
    from foretrace.look.fixes import predicted, predicted_on_cpu
    from foretrace.look.groups import group_rows, of_first_screen, sequences
    from foretrace.look.measured_step import WORTH, cpu_tree, measured, whole_ns
    from foretrace.look.rules import run_all
    from foretrace.look.savings import entries, time_of, with_savings, without_profiler
    from foretrace.look.steering import Steering
    from foretrace.look.trust import trust
    from foretrace.trace.bounds import unprofiled_step_ns
    from foretrace.trace.utilization import utilization

    choice, every, step = steering or Steering(), run_all(trace), measured(trace)
    seen = [each for each in every if choice.keeps(each.rule)]
    future = predicted(trace, seen, choice.advises) if step is not None else None
    found = document(trace, with_savings(seen, future))
    if step is not None and future is not None:
        step = without_profiler(trace, step, future)
        found.step, found.fixes = time_of(future), entries(future)
    found.cpu = cpu_tree(trace) if step is None else []
    on_cpu = predicted_on_cpu(trace, choice.advises) if step is None else None
    replayed = future or on_cpu
    found.ignored = choice.withheld(every, replayed.withheld if replayed else ())
    found.verdict = lines.verdict(step, found, on_cpu, unprofiled_step_ns(trace))
    found.verdict = replace(found.verdict, text=f"{_part(trace, found, step)}{found.verdict.text}")
    found.composition = of_first_screen(trace, step, found)
    if step is not None:
        found.groups = group_rows(trace, step.spans)
        used = utilization(trace, step.spans)
        found.mfu, found.mbu = used.mfu_wall, used.mbu_wall
        found.mfu_gpu, found.mbu_gpu = used.mfu_gpu, used.mbu_gpu
    found.host_times_profiled = step is None or step.profiled
    found.trust = trust(trace, found)
    per, worth = (step.per, WORTH * whole_ns(step)) if step else ("", 0.0)
    overview = found.overview = Overview(
        found,
        lines.lines(found, step),
        lines.notes(found, step),
        *(per, worth, sequences(trace)),
        *(trace.about.world_size, trace.tables.base_ns, trace.about.job),
    )
    return overview
