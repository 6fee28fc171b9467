"""The pytest plugin, run by pytest inside pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace
import foretrace.check.lines
import foretrace.record.snapshots
from foretrace.base.errors import UsageError

pytest_plugins = "pytester"

H200 = Path(foretrace.__file__).parent / "read/recordings/h200"
MLP, COMPILED = H200 / "mlp_eager.json.gz", H200 / "mlp_compiled.json.gz"
# Everything is loaded once, here: a run inside this one takes back what it imports, and numpy
# cannot be imported twice.
foretrace.check(foretrace.open(MLP, cache=False), "in nowhere: kernels == 0")
foretrace.check(foretrace.open(MLP, cache=False), "total.kernels == 0")
KERNELS = "__kernels__/test_it/test_it.sm90.txt"
OTHERS = ("unraisableexception", "threadexception", "hypothesispytest", "anyio")
FEWER = [part for name in OTHERS for part in ("-p", f"no:{name}")]


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """A run inside this one, without the plugins that it does not need (one collects garbage many
    times over).
    """
    return pytester.runpytest(*FEWER, *arguments)


def _test(pytester: pytest.Pytester, body: str, marks: str = "", trace: Path = MLP) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    opened = f"    t = kernel_trace({str(trace)!r})"
    pytester.makepyfile(
        test_it=f"import pytest\n{marks}\ndef test_it(kernel_trace):\n{opened}\n{lines}\n"
    )


def test_a_hit_passes_and_is_counted(pytester: pytest.Pytester) -> None:
    _test(
        pytester,
        "t.check('in mlp_fwd: kernels == 5', 'layout(gemm) == tn')\nassert "
        "t.expect.count('gemm') == 3",
    )
    result = run(pytester, "--strict-markers")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*foretrace*", "1 trace, 2 predictions: 2 hit, 0 missed, 0 unknown"]
    )


def test_a_miss_fails_and_the_section_shows_the_slice(pytester: pytest.Pytester) -> None:
    _test(
        pytester,
        "t.check('in mlp_fwd: kernels == 5')\nt.check('in mlp_fwd: fused(gelu, mul)', "
        "reason='they were')",
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- foretrace -*",
            "hit     in mlp_fwd: kernels == 5",
            "MISS    in mlp_fwd: fused(gelu, mul)",
            "*expected because: they were",
            "*33.2 us  gelu * aten::gelu",
            "*1 trace, 2 predictions: 1 hit, 1 missed*",
        ]
    )


@pytest.mark.parametrize(
    ("marks", "outcome"),
    [
        ("@pytest.mark.max_kernels(5)", "passed"),
        ("@pytest.mark.max_kernels(4)", "failed"),
        ("@pytest.mark.no_sync", "passed"),
        ("@pytest.mark.predict('not fused(gelu, mul)', 'count(gemm) == 3')", "passed"),
        ("@pytest.mark.predict('fused(gelu, mul)', reason='x')", "failed"),
        ("@pytest.mark.max_kernels(4)\n@pytest.mark.no_sync", "failed"),
        ("@pytest.mark.predict('kernls == 5')", "failed"),
        ("@pytest.mark.max_kernels()", "failed"),
    ],
)
def test_marks(pytester: pytest.Pytester, marks: str, outcome: str) -> None:
    _test(pytester, "pass", marks)
    run(pytester, "--strict-markers").assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize(
    ("policy", "outcome"), [("report", "passed"), ("skip", "skipped"), ("fail", "failed")]
)
def test_unknown_is_said(pytester: pytest.Pytester, policy: str, outcome: str) -> None:
    _test(pytester, "t.check('peak < 6 GB')")
    pytester.makeini(f"[pytest]\nforetrace_unknown = {policy}")
    result = run(pytester)
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(
        ["unknown  test_it.py::test_it: peak < 6 GB: no GPU memory events*"]
    )


def test_unknown_fails_in_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    _test(pytester, "t.check('peak < 6 GB')")
    run(pytester).assert_outcomes(passed=1)
    monkeypatch.setenv("CI", "true")
    run(pytester).assert_outcomes(failed=1)
    run(pytester, "--foretrace-unknown=report").assert_outcomes(passed=1)


def test_a_prediction_that_cannot_be_parsed_fails_and_the_others_are_marked(
    pytester: pytest.Pytester,
) -> None:
    _test(pytester, "t.check('fused', 'total.kernels == 15')")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ERROR   fused", "*`fused`*", "hit     total.kernels*"])


def test_a_snapshot_is_written_then_the_same_then_changed(pytester: pytest.Pytester) -> None:
    _test(pytester, "t.check_snapshot()")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*snapshots: 1 written"])
    text = (pytester.path / KERNELS).read_text()
    assert text.splitlines()[0] == "# foretrace kernels, sm90, per step"
    assert [line.split("  ")[0] for line in text.splitlines()[1:]] == ["2", "1", "2", "1", "1"]
    assert "2  nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT" in text
    names = [line.split("  ", 1)[1] for line in text.splitlines()[1:]]
    assert names == sorted(names)
    assert not any("::native" in name for name in names)
    run(pytester).assert_outcomes(passed=1)
    assert (pytester.path / KERNELS).read_text() == text
    _test(pytester, "t.check_snapshot()", trace=COMPILED)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- foretrace -*",
            "test_it.sm90.txt:",
            "removed  1 x vectorized_elementwise_kernel<8, *Mul*",
            "removed  1 x vectorized_elementwise_kernel<8, *Gelu*",
            "added    1 x triton_poi_fused__unsafe_view_gelu_mul",
            "*snapshots: 1 changed",
        ]
    )
    result.stdout.no_fnmatch_line("*ed  * x nvjet*")
    assert (pytester.path / KERNELS).read_text() == text
    run(pytester, "--foretrace-update").assert_outcomes(passed=1)
    assert "triton_poi_fused__unsafe_view_gelu_mul" in (pytester.path / KERNELS).read_text()
    run(pytester).assert_outcomes(passed=1)


def test_a_missing_snapshot_fails_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    _test(pytester, "t.check_snapshot()")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*no kernel snapshot *test_it.sm90.txt: run once with --foretrace-update*"]
    )
    assert not (pytester.path / "__kernels__").exists()


def test_another_machine_skips_and_says_so(pytester: pytest.Pytester) -> None:
    _test(pytester, "t.check_snapshot()")
    other = pytester.path / KERNELS.replace("sm90", "sm80-torch2.11")
    other.parent.mkdir(parents=True)
    other.write_text("# foretrace kernels\n1  something\n")
    result = run(pytester, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no kernel snapshot for sm90; found sm80-torch2.11*"])


def test_with_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_many=f"""
        import pytest
        @pytest.mark.parametrize("n", range(6))
        @pytest.mark.max_kernels(5)
        def test_mlp(kernel_trace, n):
            t = kernel_trace({str(MLP)!r})
            kernels = 5 if n else 4
            t.check(f"in mlp_fwd: kernels == {{kernels}}", "peak < 6 GB")
            t.check_snapshot()
    """
    )
    result = run(pytester, "-n", "1", "-p", "xdist")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- foretrace -*",
            "MISS    in mlp_fwd: kernels == 4",
            "6 traces, 17 predictions: 10 hit, 1 missed, 6 unknown; snapshots: 5 written",
            "unknown  test_many.py::test_mlp?0?: peak < 6 GB*",
        ]
    )
    shots = sorted(path.name for path in (pytester.path / "__kernels__" / "test_many").iterdir())
    assert shots == [f"test_mlp-{n}.sm90.txt" for n in range(1, 6)]


def test_other_peoples_runs_are_left_alone(pytester: pytest.Pytester) -> None:
    """No heavy import, no summary, no files."""
    pytester.makepyfile("""
        import sys
        def test_light():
            heavy = {"torch", "polars", "numpy", "foretrace.check", "foretrace.model"}
            assert not heavy & set(sys.modules)
    """)
    result = pytester.runpytest_subprocess(*FEWER, "-W", "error")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*= foretrace =*")
    assert not any((pytester.path / name).exists() for name in ("__kernels__", ".foretrace"))


def test_without_torch(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys\nsys.modules['torch'] = None")
    pytester.makepyfile(f"""
        import pytest
        def test_file(kernel_trace):
            kernel_trace({str(MLP)!r}).check("in mlp_fwd: kernels == 5")
        def test_record(kernel_trace):
            with kernel_trace() as t:
                pass
    """)
    result = pytester.runpytest_subprocess(*FEWER, "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*kernel_trace records with torch: pip install torch*"])


MODEL = """
    import os, pytest, torch, torch.nn.functional as F
    from torch import nn
    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = (nn.Linear(16, 32, bias=False) for _ in range(2))
            self.down = nn.Linear(32, 16, bias=False)
        def forward(self, x):
            return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))
"""


@pytest.mark.torch
class TestWithTorch:
    """On a CPU: ops that compute, and Inductor's C++ kernels. Runs that import torch get a process
    of their own: it cannot be imported twice."""

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        pytest.importorskip("torch")

    @pytest.mark.sweep
    def test_the_snapshot_differs_by_the_fused_kernel_and_an_error_stays_the_error(
        self, pytester: pytest.Pytester
    ) -> None:
        """Both ways in one process, which imports torch; then a test that fails, and what it leaves."""
        pytester.makepyfile(
            test_error="""
            import os, torch
            from torch._inductor import config
            def test_error(kernel_trace):
                assert config.cpp.enable_kernel_profile
                with kernel_trace() as t:
                    torch.ones(2) * 3
                    raise ValueError("mine")
            def test_after():
                assert not config.cpp.enable_kernel_profile
                assert "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE" not in os.environ
        """
        )
        pytester.makepyfile(
            test_mlp=MODEL
            + """
    def test_mlp(kernel_trace):
        torch.manual_seed(0)
        model, x = MLP().eval(), torch.randn(2, 4, 16)
        run = torch.compile(model) if os.environ["WAY"] == "compiled" else model
        with torch.no_grad(), kernel_trace(warmup=2, steps=1) as t:
            for _ in t:
                run(x)
        fused, count = ("", 4) if os.environ["WAY"] == "compiled" else ("not ", 5)
        t.check(f"{fused}fused(gelu, mul)", "calls(aten::mm) == 3", f"kernels == {count}",
                "gpu.busy > 1%")
        t.check_snapshot()
        """
        )
        result = pytester.runpython_c(
            "import os, pytest\n"
            "for way, file in (('eager', 'mlp'), ('compiled', 'mlp'), ('failed', 'error')):\n"
            "    os.environ['WAY'] = way\n"
            f"    options = {[*FEWER, '-p', 'no:cacheprovider']}\n"
            "    print(way, int(pytest.main([*options, f'test_{file}.py'])))"
        )
        result.stdout.fnmatch_lines(
            [
                "1 trace, 4 predictions: 3 hit, 0 missed, 1 unknown; snapshots: 1 written",
                "unknown  test_mlp.py::test_mlp: gpu.busy > 1%: no GPU events*",
                "eager 0",
                "*- foretrace -*",
                "test_mlp.cpu-torch*:",
                "removed  1 x aten::gelu",
                "removed  1 x aten::mul",
                "added    1 x cpp_fused__unsafe_view_gelu_mul",
                "*the trace is kept in *test_mlp.json.gz",
                "compiled 1",
                "*ValueError: mine*",
                "kept*test_error.py.test_error.json.gz",
                "*1 failed, 1 passed*",
                "failed 1",
            ]
        )
        result.stdout.no_fnmatch_line("*ed  * x aten::mm*")
        [snapshot] = (pytester.path / "__kernels__" / "test_mlp").iterdir()
        assert snapshot.name.startswith("test_mlp.cpu-torch")
        assert snapshot.read_text().splitlines()[1:] == [
            "1  aten::gelu",
            "3  aten::mm",
            "1  aten::mul",
        ]
        kept = pytester.path / ".foretrace" / "test_mlp.py.test_mlp.json.gz"
        assert foretrace.open(kept, cache=False).has("steps")

    @pytest.mark.parametrize(
        ("body", "rounds", "steps"),
        [
            ("for _ in t:\n    work()", 5, ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]),
            (
                "for _ in range(5):\n    work()\n    t.step()",
                5,
                ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"],
            ),
            (
                "for _ in range(9):\n    work()\n    t.step()",
                9,
                ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"],
            ),
            (
                "for _ in range(3):\n    work()\n    t.step()",
                3,
                ["ProfilerStep#2", "ProfilerStep#3"],
            ),
            ("work()", 1, ["ProfilerStep#0"]),
        ],
    )
    @pytest.mark.filterwarnings("ignore:kernel_trace")
    def test_rounds(self, kernel_trace: object, body: str, rounds: int, steps: list[str]) -> None:
        import torch

        done: list[torch.Tensor] = []
        with kernel_trace(warmup=2, steps=3) as t:  # type: ignore[operator]
            exec(body, {"t": t, "work": lambda: done.append(torch.ones(2) * 3)})
        assert len(done) == rounds
        assert t.trace.steps["name"].to_list()[:3] == steps
        [verdict] = t.check("calls(aten::mul) <= 1")
        assert verdict.verdict == "hit"

    def test_a_block_without_rounds_says_that_nothing_was_warm(self, kernel_trace: object) -> None:
        with (
            pytest.warns(pytest.PytestWarning, match="ran once, without warm-up"),
            kernel_trace(warmup=2) as t,
        ):  # type: ignore[operator]
            pass
        assert t.kernels == {}

    def test_too_few_rounds(self, kernel_trace: object) -> None:
        with pytest.raises(UsageError, match="1 round ran"), kernel_trace(warmup=3) as t:  # type: ignore[operator]
            t.step()

    def test_gpu_predictions_on_a_cpu_are_unknown(self, kernel_trace: object) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
        with kernel_trace() as t:  # type: ignore[operator]
            torch.ones(4, 4) @ torch.ones(4, 4)
        verdicts = foretrace.check(
            t.trace,
            [
                "waits == 0",
                "total.memcpys == 0",
                "gpu.idle < 10%",
                "bound == host",
                "total.launches < 9",
                "total.gpu.time < 1 s",
            ],
        )
        assert {verdict.verdict for verdict in verdicts} == {"unknown"}
