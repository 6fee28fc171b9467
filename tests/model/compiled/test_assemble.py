"""Four recorded compiles, put together: every call has its nodes, lines and bytes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foretrace.analyze import why
from foretrace.model.compiled import assemble
from foretrace.model.compiled.assemble import by_compilation
from foretrace.model.compiled.provenance import Matcher
from foretrace.read.compiler import read
from foretrace.schema.compiler import Compilation, KernelCall
from model.compiled.recorded import DATA, compiled

RUNS = ("mlp", "unfusable", "recompiles", "llama_train")


@pytest.fixture(scope="module", params=RUNS)
def compilations(request: pytest.FixtureRequest) -> tuple[Compilation, ...]:
    return compiled(request.param).compilations


def test_every_call_has_nodes_and_lines(compilations: tuple[Compilation, ...]) -> None:
    calls = [call for each in compilations for call in each.calls]
    assert calls
    assert [call.handle for call in calls if not call.nodes or not call.sources] == []


def test_every_call_has_bytes_unless_its_sizes_are_dynamic(
    compilations: tuple[Compilation, ...],
) -> None:
    unknown = [call for each in compilations for call in each.calls if call.bytes is None]
    sizes = [size for call in unknown for each in call.accesses for size in each.tensor.shape]
    assert not unknown or any(isinstance(size, str) for size in sizes)


def test_nodes_are_those_of_the_graph(compilations: tuple[Compilation, ...]) -> None:
    for each in compilations:
        for part in assemble.parts(each):
            graph = next(graph for graph in part.graphs if graph.stage == "post_grad")
            known = {node.name for node in graph.nodes}
            assert {node for call in part.calls for node in call.nodes} <= known


@pytest.mark.parametrize("name", RUNS)
def test_calls_without_provenance_find_the_same_nodes(name: str) -> None:
    """The other records lead to what Inductor recorded itself, where it did."""
    records, texts = by_compilation(read(str(DATA / name)))
    for key in records:
        held = assemble._Pieces(key, records[key], texts[key])
        for at, wrapper in enumerate(held.wrappers):
            if b"cppCodeToPost" not in wrapper.mappings:
                continue
            calls = [call for call in held.compilation().calls if call.graph == at]
            scheduled = [node for node in held.after if node.graph == at]
            matcher = Matcher(wrapper.code, wrapper.post_grad, scheduled, held.origins[at])
            found = matcher.matched([replace(call, nodes=()) for call in calls])
            assert [_told(call) for call in found] == [_told(call) for call in calls]


def _told(call: KernelCall) -> tuple[str, set[str]]:
    """Provenance counts what attention reads, clones included, as part of it."""
    nodes = (
        {name for name in call.nodes if "attention" in name}
        if "attention" in call.kernel
        else set()
    )
    return call.handle, nodes or (set() if "attention" in call.kernel else set(call.nodes))


def test_forward_and_backward_are_two_parts() -> None:
    (llama,) = compiled("llama_train").compilations
    forward, backward = assemble.parts(llama)
    assert [assemble.graph_name(part) for part in (forward, backward)] == ["forward", "backward"]
    assert (len(forward.before), len(forward.after), len(forward.calls)) == (116, 85, 69)
    assert (len(backward.before), len(backward.after), len(backward.calls)) == (139, 123, 111)
    assert sum(each.times for each in llama.choices if not each.fused) == 534


def test_the_attempt_that_succeeded_counts() -> None:
    broken, rest = compiled("unfusable").compilations
    assert [each.source.place for each in broken.breaks] == ["record.py:52"]
    assert [len(each.code) for each in (broken, rest)] == [1, 1]
    assert rest.function
    assert rest.function.function == "torch_dynamo_resume_in_f_at_52"


def test_a_recompilation_names_the_sizes_that_caused_it() -> None:
    first, again = compiled("recompiles").compilations
    assert first.recompile == ()
    assert [(each.version, each.expected, each.actual) for each in again.recompile] == [
        ("0/0", "64", "32")
    ]


def test_the_time_of_a_backward_counts() -> None:
    (llama,) = compiled("llama_train").compilations
    assert llama.compile_ns == (15_741_939 + 6_027_809) * 1000


def test_log_text_alone_has_code_and_reasons() -> None:
    run = why.load(DATA / "unfusable" / "torch_logs.txt.gz")
    assert [len(each.calls) for each in run.compilations] == [2, 4]
    assert any("TORCH_TRACE" in text for text in run.lacks)
    assert all(call.nodes for each in run.compilations for call in each.calls if not call.extern)


def test_a_structured_log_alone_says_what_is_missing() -> None:
    run = why.load(DATA / "mlp" / "torch_trace.log.gz")
    assert [words.partition(" (")[0] for words in run.lacks] == [
        "fusion reasons",
        "the scheduler's nodes",
    ]
