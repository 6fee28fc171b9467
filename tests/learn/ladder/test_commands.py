"""`foretrace lab run` and `foretrace record` as users start them, and the article's own scripts."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from foretrace.cli import main  # noqa: E402

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parents[3] / "examples"
# What the GPU machine lacks: capturing must not notice.
NO_READER = (
    "import sys; [sys.modules.__setitem__(name, None) for name in ('polars', 'msgspec', "
    "'numpy', 'rich')]; "
)


class InductorError(RuntimeError):
    """As Inductor raises it; importing the real one takes seconds."""

    __module__ = "torch._inductor.exc"


# Each line of arguments, with what it prints in files of its number.
EACH = """from foretrace.cli import main
from contextlib import redirect_stderr, redirect_stdout
for at, line in enumerate(sys.argv[1:]):
    with open(f"{at}.out", "w") as out, open(f"{at}.err", "w") as err:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(line.split())
    print(code)
"""
RUN = "lab run linear --in_dim 8 --out-dim 4 --batch 2"
SCRIPT = "import sys, torch\nprint(sys.argv[1:])\ntorch.ones(2) + 1\nsys.exit(3)"
LONG = "import time, torch\ntorch.ones(2) + 1\ntime.sleep(1.5)\ntorch.ones(2) * 2"


def foretrace(*lines: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`foretrace LINE` for each line, in one process without the reader: its exit codes."""
    line = [sys.executable, "-c", NO_READER + EACH, *lines]
    return subprocess.run(line, capture_output=True, text=True, cwd=cwd, check=False)


def test_what_is_recorded_without_the_reader(tmp_path: Path) -> None:
    """Four commands in one process, which imports torch once."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "long.py").write_text(LONG)
    record = "record --json -o t script.py --steps 9 -m"
    done = foretrace(
        f"{RUN} --no-look", RUN, record, "record --json --limit 1 long.py", cwd=tmp_path
    )
    assert done.stdout.split() == ["0", "4", "3", "0"], done.stderr
    assert "profiler_start" not in done.stderr  # Kineto's own log
    check_run(tmp_path)
    check_record(tmp_path)
    notes = json.loads((tmp_path / "3.out").read_text())["notes"]
    assert "stopped recording everything after 1 s (--limit)" in notes


def check_run(tmp_path: Path) -> None:
    """`run` writes a trace and its record; looking names the install command and the trace."""
    trace = (tmp_path / "0.out").read_text().strip()
    assert Path(trace).parent == Path("traces")
    assert Path(trace).name.startswith("linear_eager_2x8x4_")
    assert (tmp_path / trace).is_file()
    assert "pip install foretrace" in (tmp_path / "1.err").read_text()
    assert len(list((tmp_path / "traces").glob("linear_eager_*.json.gz"))) == 2


def check_record(tmp_path: Path) -> None:
    """`record` passes arguments and the exit code, and keeps standard output for JSON."""
    said = json.loads((tmp_path / "2.out").read_text())
    assert said["exit_code"] == 3
    assert "['--steps', '9', '-m']" in (tmp_path / "2.err").read_text()
    assert said["traces"] == ["t/script.json.gz"]
    assert json.loads((tmp_path / "t/script.run.json").read_text())["script"]["steps_seen"] == 0


def test_run_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"matmul_add --size 4 --dtype fp32 --device cpu --json -o {tmp_path}"
    assert main(["lab", "run", *line.split()]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == 1
    assert said["trace"] == str(tmp_path / "matmul_add_eager_4_fp32_cpu.json.gz")
    assert said["run"] == json.loads(Path(said["record"]).read_text())
    assert said["run"]["rung"]["options"] == {"size": 4, "batch": 0, "bias": "2d"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("linear --batch -3", "batch cannot be -3: the minimum is 1"),
        ("train_step --small --heads 5", "5 heads cannot share 64 features: heads must divide dim"),
        (
            "mlp --mode max-autotune",
            "--mode max-autotune is a mode of torch.compile: add --compile",
        ),
        (
            "linear --in-dim 9223372036854775807",
            "linear does not run with these options: RuntimeError: ",
        ),
    ],
)
def test_what_cannot_run_is_wrong_usage_in_one_line(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", *line.split(), "--device", "cpu", "-o", str(tmp_path)]) == 2
    [shown] = capsys.readouterr().err.splitlines()
    assert shown.startswith(f"foretrace: {said}")


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory.\nmore"),
            "linear does not fit into memory: choose smaller sizes",
        ),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            "linear does not fit into memory",
        ),
        (
            InductorError("OSError: no g++"),
            "torch.compile cannot compile linear here: InductorError: OSError: no g++",
        ),
    ],
)
def test_what_a_machine_lacks_is_exit_4_in_one_line(
    problem: Exception,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def raising(*arguments: object, **options: object) -> None:
        raise problem

    monkeypatch.setattr("foretrace.record.profiling.window.capture_call", raising)
    assert main(["lab", "run", "linear", "--device", "cpu", "-o", str(tmp_path)]) == 4
    [shown] = capsys.readouterr().err.splitlines()
    assert said in shown


@pytest.mark.parametrize(
    ("line", "trace"),
    [
        ("01_matmul_add.py --size 8 --dtype fp32", "01_matmul_add/8_fp32_cold_eager"),
        (
            "01_matmul_add.py --size 8 --dtype fp32 --warmup --compile",
            "01_matmul_add/8_fp32_warm_compile",
        ),
        ("01_matmul_add.py --size 8 --dtype bf16", "01_matmul_add/8_bf16_cold_eager"),
        ("02_linear.py --batch 4 --in_dim 8 --out_dim 4", "02_linear/4_8_4_eager"),
        ("03_simple_mlp.py --batch 2 --seq 4 --dim 8 --hidden 16", "03_simple_mlp/2_4_8_16_eager"),
        (
            "03_kernels_mlp.py --batch 2 --seq 4 --dim 8 --hidden 16",
            "03_kernels_mlp/2_4_8_16_plain_eager",
        ),
        pytest.param(
            "03_kernels_mlp.py --batch 2 --seq 4 --dim 8 --hidden 16 --compile",
            "03_kernels_mlp/2_4_8_16_plain_compile",
            marks=pytest.mark.sweep,  # Inductor compiles a MLP for `test_on_a_cpu.py` in every run
        ),
        (
            "04_attention.py --batch 1 --heads 2 --seq 8 --head_dim 4",
            "04_attention/1_2_8_4_naive_eager",
        ),
        (
            "04_attention.py --batch 1 --heads 2 --seq 8 --head_dim 4 --backend math",
            "04_attention/1_2_8_4_math_eager",
        ),
    ],
)
def test_an_example_takes_the_articles_flags_and_names_its_files_as_the_article_does(
    line: str, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, *arguments = line.split()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert all(
        (tmp_path / "traces" / f"{trace}{suffix}").is_file()
        for suffix in (".json", ".txt", ".run.json")
    )


def test_why_needs_something_that_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "mlp", "--small", "--why"]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert "--why keeps the records of torch.compile: add --compile" in said
