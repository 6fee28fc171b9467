"""The pytest plugin and torch.compile: records are kept where a prediction needs them."""

from __future__ import annotations

import pytest

from test_pytest_plugin import FEWER

pytest_plugins = ["pytester"]
PROGRAM = """
import pytest, torch

def twice(x):
    return torch.nn.functional.gelu(x) * x

def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

def run(function, t, *sizes):
    compiled = torch.compile(function, backend="eager")
    with t:
        for size in sizes:
            compiled(torch.ones(size))
"""


@pytest.fixture(autouse=True)
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.sweep
def test_marks_keep_the_records_that_they_need(pytester: pytest.Pytester) -> None:
    """One process for all: torch cannot be imported twice."""
    pytester.makepyfile(
        test_it=PROGRAM
        + """
@pytest.mark.predict("graph_breaks == 0", "recompiles == 0", "graphs == 1", "compile.time < 600 s")
def test_whole(kernel_trace):
    run(twice, kernel_trace(), 4, 4)

@pytest.mark.predict("graph_breaks == 0")
def test_broken(kernel_trace):
    torch._dynamo.reset()
    run(broken, kernel_trace(), 4)

def test_again(kernel_trace):
    torch._dynamo.reset()
    t = kernel_trace(why=True)
    run(twice, t, 4, 8)
    t.check("graphs == 2", "graph_breaks == 0")
    t.check("recompiles == 0")

@pytest.mark.predict("calls(aten::mul) >= 1")
def test_without_need(kernel_trace):
    torch._dynamo.reset()
    t = kernel_trace()
    run(twice, t, 4)
    assert not t.why
    assert not t.path.with_name("block0.why").exists()

@pytest.mark.predict("graph_breaks == 0")
def test_nothing_compiled(kernel_trace):
    with kernel_trace():
        torch.ones(4)
"""
    )
    result = pytester.runpytest_subprocess(*FEWER, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, failed=2, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*MISS    graph_breaks == 0*",
            "*test_it.py:8  Call to `torch._dynamo.graph_break()`*",
            "*MISS    recompiles == 0*",
            "*size mismatch at index 0. expected 4, actual 8*",
            "*nothing was compiled while the records were kept*",
            "unknown  test_it.py::test_nothing_compiled: graph_breaks == 0: *",
        ]
    )
    kept = {path.name for path in (pytester.path / ".foretrace").iterdir()}
    assert "test_it.py.test_broken.why" in kept
