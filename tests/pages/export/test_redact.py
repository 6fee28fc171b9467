"""What is shared holds nothing private, and still says the same about the GPU."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from pathlib import Path

import pytest

import foretrace
from corpus.builder import TraceBuilder
from corpus.odd_content import merged
from foretrace.base.errors import TraceError, UsageError
from foretrace.look import look
from foretrace.look.rules import run_all
from foretrace.pages.export.allowed import KEEP, USERS, AllowList, is_public
from foretrace.pages.export.publish import Folder, copies, parse_keep, redact
from foretrace.read.recordings import traces
from foretrace.work import families
from pages.export import planted
from sweep import FULL, looped

FAMILIES = Path(__file__).parents[2] / "work/families"
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES", "")
SNAPSHOT = Path(__file__).parents[2] / "recorded/memory/train.pickle.xz"


def everything_in(folder: Path) -> str:
    """Names and contents of all files, and what they carry inside gzip and base64."""
    texts = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        inside = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        texts += [path.name, data.decode("latin-1"), inside.decode("latin-1")]
        texts += [
            base64.b64decode(found + b"==").decode("latin-1")
            for found in re.findall(rb"[A-Za-z0-9+/]{40,}", inside)
        ]
    return "\n".join(texts)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / planted.FILE_NAME).write_bytes(planted.document().bytes())
    return folder


def test_there_are_forty_secrets_and_all_are_in_the_source(source: Path) -> None:
    held = everything_in(source)
    assert len(set(planted.SECRETS)) == 40
    assert [secret for secret in planted.SECRETS if secret not in held] == []


def test_none_is_in_what_is_shared(source: Path, tmp_path: Path) -> None:
    [shared] = copies(str(source), Folder(tmp_path / "out"))
    held = everything_in(tmp_path / "out").lower()
    assert [secret for secret in planted.SECRETS if secret.lower() in held] == []
    assert (shared.there, Path(shared.place).name[:6]) == (False, "rank3-")
    copy = foretrace.open(shared.place, cache=False)
    assert (copy.about.rank, copy.about.device, copy.event_count > 10) == (3, "NVIDIA H100", True)
    assert copy.kernels.height == 1


@pytest.mark.parametrize(
    ("keep", "found"),
    [
        ("stacks", (planted.IN.STACK, planted.IN.FRAME)),
        ("names", (planted.IN.OP_PATH, planted.IN.REGION_PATH, planted.IN.MAIL)),
        ("inputs", (planted.IN.PROMPT,)),
    ],
)
def test_more_can_be_kept(source: Path, tmp_path: Path, keep: str, found: tuple[str, ...]) -> None:
    assert [*copies(str(source), Folder(tmp_path / "out"), parse_keep(keep))]
    held = everything_in(tmp_path / "out")
    assert [secret for secret in found if secret not in held] == []
    never = (*planted.KEYS, planted.IN.ENVIRONMENT, planted.IN.LOG, planted.IN.THREAD)
    assert [key for key in never if key in held] == []


def assert_the_same(path: Path, folder: Path) -> None:
    """The copy of a trace has its names, numbers, chains of ops and findings. `NAMES` change
    where a name is a hash: what a group or a rule knows by it.
    """
    trace, allowed = foretrace.open(path, cache=False), AllowList()
    copy = foretrace.open(redact(trace, folder, allowed), cache=False)
    before, after = look(trace), look(copy)
    assert (after.totals, after.steps) == (before.totals, before.steps)
    assert after.verdict.bound == before.verdict.bound
    rows = [
        [(row.count, row.per_step, row.total_ns, row.median_ns) for row in each.kernels]
        for each in (before, after)
    ]
    assert rows[0] == rows[1]
    for was, row in zip(before.kernels, after.kernels, strict=True):
        assert row.name == allowed.name(was.name)
        assert [*row.chain] == [allowed.name(op) for op in was.chain]
        if is_public(was.name):
            assert (row.role, row.family) == (was.role, was.family)
    if all(map(is_public, (*trace.kernels["name"], *trace.ops["name"]))):
        said = [
            [(each.rule, each.state, each.at_most_ns, len(each.events)) for each in run_all(one)]
            for one in (trace, copy)
        ]
        assert said[0] == said[1]
    assert after.ledger.skipped == after.ledger.repaired == 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", sorted(traces(), key=lambda name: traces()[name].stat().st_size))
def test_a_copy_says_the_same_about_the_gpu(name: str, tmp_path: Path) -> None:
    assert_the_same(traces()[name], tmp_path)


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_copies_of_public_traces_say_the_same(tmp_path: Path) -> None:
    for path in sorted(Path(PUBLIC).rglob("*.json.gz")):
        if FULL or path.stat().st_size < 200_000:
            assert_the_same(path, tmp_path)


def test_ranks_of_a_merged_file_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "merged.json"
    path.write_bytes(merged(list(range(8))).bytes())
    assert_the_same(path, tmp_path)


@pytest.mark.parametrize("key", ["device", "stream"])
def test_streams_and_devices_with_long_numbers_stay_apart(key: str, tmp_path: Path) -> None:
    trace = TraceBuilder().kernel("gemm", 0, 50).kernel("gemm", 20, 50).kernel("gemm", 40, 50)
    for at, number in enumerate((7, 4_000_000_000_123_456, 4_000_000_000_654_321)):
        trace.events[at]["args"][key] = number
    path, folder = tmp_path / "long.json", tmp_path / "copy"
    path.write_bytes(trace.bytes())
    folder.mkdir()
    assert_the_same(path, folder)
    assert "4000000000123456" not in everything_in(folder)


@looped(
    "name",
    [
        "aten::mm",
        "c10d::allreduce_",
        "ProfilerStep#3",
        "Torch-Compiled Region: 0/0",
        "autograd::engine::evaluate_function: MmBackward0",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "triton_poi_fused__unsafe_view_gelu_mul_0",
        "Memcpy HtoD (Pageable -> Device)",
        "nccl:all_reduce",
        "nccl:send 0->1",
        "cudaLaunchKernelExC_v11060",
        "hipModuleLaunchKernel",
        "## Call CompiledFxGraph fadri2gvaccdsuvko2wteeonnvzahljuczzqqcavvykm3cznaibj ##",
        "Optimizer.step#AdamW.step",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "nn.Module: Linear_3",
        "_C::rms_norm",
    ],
)
def test_public_names_stay(name: str) -> None:
    assert AllowList().name(name) == name


def test_names_of_known_kernels_stay() -> None:
    files = [*FAMILIES.glob("examples/*.jsonl"), *FAMILIES.glob("*_names.jsonl")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    names = {json.loads(line)["name"] for line in lines if line}
    known = [name for name in names if families.decode(name).family not in USERS]
    assert len(known) > 400
    assert [name for name in known if not is_public(name)] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("triton_poi_fused_moonshot_gelu_0", "triton_poi_fused_*_gelu_0"),
        ("triton_moonshot", "*"),
        ("void at::native::vectorized_elementwise_kernel<4, MoonshotFunctor<float> >(int)", "void at::native::vectorized_elementwise_kernel<4, *<float> >(int)"),
        ("void run<at::native::Moonshot>(int)", "*"),
        ("moonshot::gelu", "*"),
        ("aten::moonshot", "*"),
        ("autograd::engine::evaluate_function: MoonshotBackward0", "autograd::engine::evaluate_function: *"),
        ("Optimizer.step#Moonshot.step", "*"),
        ("nn.Module: MoonshotMLP_3", "*"),
        ("cudaMoonshot", "*"),
        ("nccl:moonshot", "*"),
        ("ProfilerStep#9123456789", "ProfilerStep#456789"),
        ("mlp_fwd", "*"),
        ("load /data/model", "*"),
    ],
)  # fmt: skip
def test_every_other_text_is_a_hash(text: str, shown: str) -> None:
    assert re.sub(r"hidden_[a-p]{10}", "*", AllowList().name(text)) == shown


def test_a_hash_is_the_same_in_one_run_and_another_in_the_next() -> None:
    """Without the secret of the run a guess cannot be confirmed."""
    first, second = AllowList(), AllowList()
    assert first.name("mlp_fwd") == first.name("mlp_fwd") != second.name("mlp_fwd")


def test_an_unknown_word_to_keep_is_named() -> None:
    with pytest.raises(UsageError, match="stacks"):
        parse_keep("everything")
    assert parse_keep(",".join(KEEP)) == frozenset(KEEP)


def test_a_second_run_sends_nothing_and_touches_nothing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("keep me")
    (first,) = copies(str(source), Folder(out))
    before = Path(first.place).stat().st_mtime_ns
    (again,) = copies(str(source), Folder(out))
    assert (again.place, again.there, again.hashed) == (first.place, True, 0)
    (more,) = copies(str(source), Folder(out), frozenset({"names"}))
    assert Path(first.place).stat().st_mtime_ns == before
    assert {path.name for path in out.iterdir()} == {
        "thesis.txt", Path(first.place).name, Path(more.place).name
    }  # fmt: skip
    assert (out / "thesis.txt").read_text() == "keep me"


def test_a_planted_link_is_not_followed(source: Path, tmp_path: Path) -> None:
    """A copy overwrote a file through a link that someone had put into the target folder."""
    (first,) = copies(str(source), Folder(tmp_path / "first"))
    outside, out = tmp_path / "thesis.txt", tmp_path / "out"
    outside.write_text("keep me")
    out.mkdir()
    (out / Path(first.place).name).symlink_to(outside)
    (shared,) = copies(str(source), Folder(out))
    assert outside.read_text() == "keep me"
    assert not Path(shared.place).is_symlink()


def test_what_is_not_copied_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a memory snapshot is not copied"):
        [*copies(str(SNAPSHOT), Folder(tmp_path / "out"))]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="contains no trace"):
        [*copies(str(tmp_path / "empty"), Folder(tmp_path / "out"))]


def test_the_command_says_what_stayed(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foretrace.cli import main

    given = ["export", str(source), "--to", "shared", "-o", str(tmp_path / "out"), "--no-cache"]
    assert main([*given, "--keep", "inputs"]) == 0
    shown = capsys.readouterr()
    (copy,) = (tmp_path / "out").iterdir()
    assert shown.out == f"{copy}\n"
    assert re.search(r"\d+ texts replaced by a hash", shown.err)
    assert "kept: the values of arguments" in shown.err
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(traces()["mlp_eager"].read_bytes()[:3000])
    assert main(["export", str(cut), *given[2:], "--strict"]) == 1


def test_a_bucket_gets_copies_and_nothing_else(
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("huggingface_hub")
    from foretrace.cli import main
    from pages.export.hub import installed

    hub = installed(monkeypatch, tmp_path)
    given = ["export", str(source), "--no-cache", "--to", "hub", "-o"]
    assert main([*given, "traces"]) == 0
    place, link = capsys.readouterr().out.split()
    (name,) = hub.held
    assert place == f"hf://buckets/tester/traces/{name}"
    assert (
        link
        == f"https://ui.perfetto.dev/#!/?url={hub.endpoint}/buckets/tester/traces/resolve/{name}"
    )
    assert not [s for s in planted.SECRETS if s.encode() in gzip.decompress(hub.held[name])]
    sent = hub.calls.count("batch_bucket_files")
    assert main([*given, "hf://buckets/tester/traces"]) == 0
    assert "(was there)" in capsys.readouterr().out
    assert hub.calls.count("batch_bucket_files") == sent
    hub.refuses["create_bucket"] = OSError("no line\nat all")
    assert main([*given, "you/traces/run7"]) == 2
    assert capsys.readouterr().err.endswith(
        "hf://buckets/you/traces/run7 at https://hub.example: no line (log in with: hf auth login)\n"
    )
