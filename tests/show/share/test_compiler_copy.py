"""The compiler's records that are shared: no secret in any of them, and `why` says the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foretrace.analyze import why
from foretrace.analyze.why.not_fused import across_breaks
from foretrace.read import compiler
from foretrace.read.compiler import CompilerLogs, LogRecord, TextRecord
from foretrace.schema.compiler import CompilerRun, KernelCall
from foretrace.schema.ledger import LedgerBuilder
from foretrace.show.share.compiler_copy import CodeText, write_copy
from foretrace.show.share.pseudonyms import Pseudonyms
from foretrace.show.share.publish import KEEP, share
from foretrace.show.share.stores import Folder
from show.share import secrets
from show.share.test_redact import everything_in
from show.share.test_secrets import leaks

COMPILED = Path(__file__).parents[2] / "data" / "compile"
Record = LogRecord | TextRecord


def record(kind: str, payload: str, name: str = "", **fields: Any) -> LogRecord:
    return LogRecord(kind, name, "0/0", 0, None, 7, fields, payload.encode(), 1)


def artifact(name: str) -> Callable[[str], Record]:
    return lambda text: record("artifact", text, name)


def message(channel: str) -> Callable[[str], Record]:
    return lambda text: TextRecord(channel, "0/0", text, 1, None)


def graph(line: str) -> Callable[[str], Record]:
    return lambda text: record("dynamo_output_graph", line.replace("SECRET", text))


def code(line: str) -> Callable[[str], Record]:
    return lambda text: record("inductor_output_code", line.replace("SECRET", text))


def kernel(line: str) -> Callable[[str], Record]:
    body = line.replace("SECRET", "{}")
    return lambda text: record(
        "inductor_output_code", f"k = async_compile.triton('k', '''\n{body.format(text)}\n''')"
    )


def frames(text: str) -> str:
    return f'  File "{text}", line 4, in {text}\n    {text}\n'


# Where a log has been seen to carry something private.
PLACES: dict[str, Callable[[str], Record]] = {
    "the environment": artifact("fx_graph_runnable"),
    "guards": lambda text: record("dynamo_cpp_guards_str", text),
    "a kind that nobody knows": lambda text: record("news", text, **{text: text}),
    "an artifact that nobody knows": artifact("news"),
    "a string of a graph": lambda text: graph("    x = op(y, SECRET)")(repr(text)),
    "a comment of a graph": graph("    x = op(y)  # SECRET"),
    "the code of a line": graph("    # File: model.py:4 in forward, code: SECRET"),
    "the file of a line": graph("    # File: SECRET:4 in forward, code: x"),
    "the function of a line": graph("    # File: model.py:4 in SECRET, code: x"),
    "a string of generated code": lambda text: code("call(SECRET)")(repr(text)),
    "a comment of generated code": code("# SECRET\ncall()"),
    "a comment that Inductor writes": code("# kernel path: SECRET\n#   %x : op(args = (SECRET))"),
    "a string of a kernel": lambda text: kernel("    tl.device_print(SECRET)")(repr(text)),
    "a comment of a kernel": kernel("    # SECRET\n    x = 1"),
    "a kernel of the user": kernel("@triton_heuristics.user_autotune()\ndef k(): SECRET"),
    "stacks of kernels": lambda text: record(
        "artifact",
        json.dumps({"k:1": [frames(text)]}),
        "inductor_provenance_tracking_kernel_stack_traces",
    ),
    "a graph break": lambda text: record(
        "artifact", f"reason {text}\n{frames(text)}", "dynamo_graph_break_reason"
    ),
    "a guard that failed": lambda text: record(
        "artifact", json.dumps([f"0/0: L['x'] == '{text}'"]), "recompile_reasons"
    ),
    "a setting": artifact("torch._functorch.config"),
    "metrics": lambda text: record(
        "compilation_metrics", "", dynamo_config=text, tags=[text], fail_reason=text, **{text: text}
    ),
    "an event": lambda text: record(
        "chromium_event", json.dumps({"name": "x", "args": {"fn": text, "compile_id": "0/0"}})
    ),
    "frames": lambda text: record(
        "dynamo_start", "", stack=[{"line": 4, "name": text, "filename": text, "loc": text}]
    ),
    "a tensor": lambda text: record("describe_tensor", "", source=text),
    "a reason of the scheduler": message("fusion"),
    "a node of the scheduler": lambda text: message("ir_pre_fusion")(f"op0.origins = '{text}'"),
    "a broken graph in words": lambda text: message("graph_breaks")(f"at {text}\n{frames(text)}"),
    "a recompilation in words": message("recompiles"),
    "a hint": message("perf_hints"),
    "a channel that nobody knows": message("news"),
    "generated code in words": message("output_code"),
}


SIZES = ("telephone 9######",)  # code is full of numbers as long


def copied(records: list[Record], folder: Path, *, keep: bool = False) -> str:
    logs = CompilerLogs(
        str(folder / "none"),
        [each for each in records if isinstance(each, LogRecord)],
        [each for each in records if isinstance(each, TextRecord)],
        LedgerBuilder().freeze(),
        (),
    )
    private = Pseudonyms(secrets.NAMES, frozenset(KEEP) if keep else frozenset())
    write_copy(logs, folder / "copy.why", "copy.json.gz", CodeText(private))
    return everything_in(folder / "copy.why")


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_gets_out_of(place: str, tmp_path: Path) -> None:
    forms = tuple(form for form in secrets.FORMS if form.name not in SIZES)
    records = [PLACES[place](form.text) for form in forms]
    assert leaks(copied(records, tmp_path), forms) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_key_goes_whatever_is_kept(place: str, tmp_path: Path) -> None:
    records = [PLACES[place](form.text) for form in secrets.KEYS]
    assert leaks(copied(records, tmp_path, keep=True), secrets.KEYS) == []


def facts(run: CompilerRun) -> list[Any]:
    """What `why` knows, without files, functions and lines of code."""
    return [
        (
            each.id,
            [(call.kernel, call.nodes, call.accesses, lines(call)) for call in each.calls],
            (each.before, each.after, each.choices, each.phases, each.compile_ns, each.cache),
            [
                [(node.name, node.target, node.tensor) for node in graph.nodes]
                for graph in each.graphs
            ],
            [(stop.source.line, stop.reason, stop.hint, stop.url) for stop in each.breaks],
            each.recompile,
        )
        for each in run.compilations
    ]


def lines(call: KernelCall) -> list[int]:
    return [source.line for source in call.sources]


@pytest.mark.parametrize("name", ["mlp", "unfusable", "recompiles"])
def test_why_says_the_same_about_a_copy(name: str, tmp_path: Path) -> None:
    source = COMPILED / name
    [shared] = share(str(source / "trace.json.gz"), Folder(tmp_path), cache=False)
    assert shared.why is not None
    copy, original = why.load(str(tmp_path / shared.why)), why.load(str(source))
    assert facts(copy) == facts(original)
    assert len(across_breaks(copy)) == len(across_breaks(original))
    assert copy.lacks == original.lacks
    assert not copy.ledger.lost_data
    text = everything_in(tmp_path)
    assert not [word for word in ("/home/user", "record.py", "s.down_proj(") if word in text]


def test_lines_of_code_stay_where_stacks_are_kept(tmp_path: Path) -> None:
    trace = str(COMPILED / "mlp" / "trace.json.gz")
    [shared] = share(trace, Folder(tmp_path), frozenset({"stacks", "paths"}), cache=False)
    [compilation] = why.load(str(tmp_path / str(shared.why))).compilations
    [source] = compilation.calls[0].sources
    assert source.file == "/home/user/scripts/record.py"
    assert source.code.startswith("def forward(s, x): return s.down_proj(")


def test_a_trace_with_other_records_is_another_copy(tmp_path: Path) -> None:
    source = tmp_path / "run"
    shutil.copytree(COMPILED / "mlp", source)
    [first] = share(str(source / "trace.json.gz"), Folder(tmp_path / "out"), cache=False)
    [again] = share(str(source / "trace.json.gz"), Folder(tmp_path / "out"), cache=False)
    for log in source.glob("torch_*"):
        log.unlink()
    [without] = share(str(source / "trace.json.gz"), Folder(tmp_path / "out"), cache=False)
    assert (first.was_there, again.was_there, without.was_there) == (False, True, False)
    assert (again.why, without.why) == (first.why, None)


def test_the_records_of_another_run_stay_here(tmp_path: Path) -> None:
    source = tmp_path / "run"
    shutil.copytree(COMPILED / "mlp", source)
    shutil.copy(COMPILED / "unfusable" / "trace.json.gz", source)
    [shared] = share(str(source / "trace.json.gz"), Folder(tmp_path / "out"), cache=False)
    assert shared.why is None
    assert not list((tmp_path / "out").glob("*.why"))


def test_messages_stay_apart(tmp_path: Path) -> None:
    """Two of one channel that follow each other would be one message, had they one head."""
    copied([TextRecord("graph_breaks", "0/0", "Graph break", at, None) for at in (3, 9)], tmp_path)
    assert len(compiler.read(str(tmp_path / "copy.why")).texts) == 2
