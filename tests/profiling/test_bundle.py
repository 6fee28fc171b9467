"""What `--why` keeps beside a trace: on a real compile, once for all tests of the session."""

from __future__ import annotations

import gzip
import json
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

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


def test_the_fused_kernel_is_in_the_trace(
    cpu_bundle: Path, names: Callable[[Path, str], list[str]]
) -> None:
    assert (
        len([name for name in names(cpu_bundle, "") if "cpp_fused__unsafe_view_gelu_mul_0" in name])
        == 3
    )
