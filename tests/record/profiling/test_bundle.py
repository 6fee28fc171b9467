"""What `--why` keeps beside a trace: on a real compile, once for all tests of the session."""

from __future__ import annotations

import gzip
import json
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from foretrace.record.profiling.window import (  # noqa: E402
    Capture,
)

pytestmark = pytest.mark.torch


def log_of(trace: Path, name: str) -> str:
    folder = trace.with_name(trace.name.replace(".json.gz", ".why"))
    return gzip.decompress((folder / name).read_bytes()).decode()


def test_the_bundle_has_a_manifest_and_two_logs(cpu_bundle: Path) -> None:
    folder = cpu_bundle.with_name("geglu_script.why")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["kind"] == "foretrace-why"
    assert (manifest["schema"], manifest["trace"]) == (1, cpu_bundle.name)
    assert manifest["torch"] == torch.__version__
    assert (manifest["lost"], manifest["rank"]) == (0, None)
    assert 0 < manifest["overhead_seconds"] < manifest["compile_seconds"]
    assert {path.name for path in folder.iterdir()} == {"manifest.json", *manifest["files"]}


def test_nobody_else_can_read_it(cpu_bundle: Path) -> None:
    folder = cpu_bundle.with_name("geglu_script.why")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_logs_hold_graphs_code_and_reasons(cpu_bundle: Path) -> None:
    structured = log_of(cpu_bundle, "torch_trace.log.gz")
    heads = [line for line in structured.splitlines() if not line.startswith("\t")]
    kinds = Counter(key for line in heads for key in json.loads(line.partition("] ")[2]))
    assert kinds["dynamo_start"] == kinds["inductor_output_code"] == 1
    assert "cpp_fused__unsafe_view_gelu_mul_0 = async_compile" in structured
    assert "inductor_provenance_tracking_node_mappings" in structured
    text = log_of(cpu_bundle, "torch_logs.txt.gz")
    channels = {part.partition("]")[0] for part in text.split("[__")[1:]}
    assert {"fusion", "ir_pre_fusion", "ir_post_fusion", "output_code"} <= channels


def compiled() -> Callable[[Any], Any]:
    """A function that Dynamo has not seen; its graph is not compiled any further."""
    torch._dynamo.reset()
    return torch.compile(lambda x: x * 3 + 1, backend="eager")


def captured(path: Path, call: Callable[[Any], Any], **options: Any) -> Capture:
    with Capture(path, steps=1, warmup=1, wait=0, **options) as window:
        for _ in range(3):
            call(torch.ones(4))
            window.step()
    return window


def test_a_capture_keeps_what_is_compiled_before_its_recorded_steps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    window = captured(tmp_path / "run", compiled(), why=True)
    assert window.bundle is not None
    assert window.bundle.folder == tmp_path / "run.why"
    assert log_of(tmp_path / "run.json.gz", "torch_trace.log.gz").count('{"dynamo_start"') == 1
    assert {path.name for path in tmp_path.iterdir()} == {"run.json.gz", "run.run.json", "run.why"}
    assert "kept the compiler's records in" in window.bundle.text
    # Kineto keeps the level of the first profiler of a process, which another test may have started
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if not line.startswith("USDT:")] == []


def test_what_is_compiled_after_the_recorded_steps_is_kept_too(tmp_path: Path) -> None:
    first, second = compiled(), torch.compile(lambda x: x - 5, backend="eager")
    with Capture(tmp_path / "run", steps=1, warmup=0, wait=0, why=True) as window:
        for call in (first, first, second):
            call(torch.ones(4))
            window.step()
    assert log_of(tmp_path / "run.json.gz", "torch_trace.log.gz").count('{"dynamo_start"') == 2


def test_a_function_that_was_compiled_before_leaves_a_warning(tmp_path: Path) -> None:
    call = compiled()
    call(torch.ones(4))
    with pytest.warns(UserWarning, match=r"nothing was compiled .* torch\._dynamo\.reset\(\)"):
        window = captured(tmp_path / "run", call, why=True)
    assert window.bundle is None
    assert not (tmp_path / "run.why").exists()


def test_a_trace_that_is_replaced_takes_its_bundle_along(tmp_path: Path) -> None:
    captured(tmp_path / "run", compiled(), why=True)
    captured(tmp_path / "run", compiled(), overwrite=True)
    assert not (tmp_path / "run.why").exists()
    captured(tmp_path / "run", compiled(), overwrite=True, why=True)
    assert (tmp_path / "run.why").is_dir()


def test_what_foretrace_did_not_write_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "run.why"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match="foretrace did not write it"):
        window = captured(tmp_path / "run", compiled(), overwrite=True, why=True)
    assert window.trace is not None
    assert [path.name for path in mine.iterdir()] == ["notes.txt"]


def test_each_rank_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        captured(tmp_path / "run", compiled(), why=True)
    manifests = [tmp_path / f"run_rank{rank}.why" / "manifest.json" for rank in "01"]
    assert [json.loads(path.read_text())["rank"] for path in manifests] == [0, 1]


def test_a_block_that_raises_keeps_what_was_compiled(tmp_path: Path) -> None:
    call = compiled()

    def fails() -> None:
        with Capture(tmp_path / "run", steps=None, why=True):
            call(torch.ones(4))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fails()
    assert (tmp_path / "run.why" / "manifest.json").is_file()


def test_an_interrupt_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("foretrace.record.profiling.compiler_records._pack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        captured(tmp_path / "run", compiled(), why=True)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json.gz", "run.run.json"}


def test_a_torch_that_changed_costs_a_log_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch._logging._internal, "configure_artifact_log")
    with pytest.warns(UserWarning, match="not all of the compiler's records are kept"):
        window = captured(tmp_path / "run", compiled(), why=True)
    assert window.bundle is not None
    assert [path.name for path in sorted(window.bundle.folder.iterdir())] == [
        "manifest.json",
        "torch_trace.log.gz",
    ]
