"""What a user writes; `make types` checks that no expression in it has the type `Any`."""

from __future__ import annotations

import foretrace as ft


def read(path: str) -> None:
    trace: ft.Trace = ft.open(path)
    both: list[ft.Trace] = ft.open_all(path, cache=False)
    print(ft.__version__, trace.path, trace.source, trace.event_count, trace.about.device)
    print(trace.kernels.height, trace.ops.columns, len(both))
    print(trace.ledger.seen, [note.text for note in trace.ledger.notes], trace.has("gpu"))
    document: ft.Look = ft.look(trace)
    print(document.totals.kernels, document.trace.device, document.ledger.notes)
    print([step.cpu_ns for step in document.steps], [row.total_ns for row in document.kernels])
    print([row.roles_per_call for row in document.regions], [row.name for row in document.ops])
    found: list[ft.Finding] = ft.findings(trace)
    print([(each.rule, each.title, each.at_most_ns, each.events) for each in found])
    print(ft.lesson(1), ft.lesson("linear"), ft.lesson(trace))


def judge(before: ft.Trace, after: ft.Trace) -> None:
    compared: ft.Comparison = ft.compare(before, after)
    print(compared.changed, compared.unchanged, compared.gpu_ns.ratio, compared.worth.text)
    verdicts: list[ft.Verdict] = ft.check(after, ["total.kernels == 5"], before)
    print([(each.verdict, each.measured, each.why) for each in verdicts])
    expected = ft.expect(after)
    print(bool(expected.kernels == 5), bool(expected("fused(gelu, mul)")))


def record() -> None:
    with ft.capture("trace.json.gz") as recording:
        recording.step()
    print(ft.handler("traces"))


def fail() -> None:
    try:
        ft.open("nothing")
    except ft.TraceError as problem:
        print(problem.code, problem.path, problem.hint)
    except (ft.UsageError, ft.MissingError, ft.ForetraceError) as problem:
        print(problem.exit_code)
