"""What is shared holds nothing private, and still says the same about the GPU."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import foretrace
from corpus.builder import TraceBuilder
from corpus.odd_content import merged
from foretrace.analyze.rules import run_all
from foretrace.base import budget
from foretrace.base.errors import LimitError, UsageError
from foretrace.read.recordings import traces
from foretrace.schema.documents.look import Look
from foretrace.show.overview import look
from foretrace.show.share import chrome, pseudonyms
from foretrace.show.share.pseudonyms import Pseudonyms, owners
from foretrace.show.share.publish import KEEP, parse_keep, redact, share
from foretrace.show.share.stores import Folder
from show.share import planted
from sweep import FULL, looped

FAMILIES = Path(__file__).parents[2] / "names/families"
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES", "")


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
    [shared] = share(str(source), Folder(tmp_path / "out"))
    held = everything_in(tmp_path / "out").lower()
    assert [secret for secret in planted.SECRETS if secret.lower() in held] == []
    assert not shared.was_there
    copy = foretrace.open(tmp_path / "out" / shared.trace, cache=False)
    assert (copy.about.rank, copy.about.device, copy.event_count > 10) == (3, "NVIDIA H100", True)
    assert copy.kernels["name"].to_list() == ["sgemm"]


@pytest.mark.parametrize(
    ("keep", "found"),
    [
        ("stacks", ()),
        ("stacks,paths", (planted.IN.STACK, planted.IN.FRAME)),
        ("names,paths", (planted.IN.OP_PATH, planted.IN.REGION_PATH)),
        ("inputs", (planted.IN.PROMPT,)),
        ("hosts", (planted.IN.THREAD,)),
        ("hosts,names", (planted.IN.THREAD, planted.IN.MAIL)),
    ],
)
def test_more_can_be_kept(source: Path, tmp_path: Path, keep: str, found: tuple[str, ...]) -> None:
    share(str(source), Folder(tmp_path / "out"), parse_keep(keep))
    held = everything_in(tmp_path / "out")
    assert [secret for secret in found if secret not in held] == []
    assert [
        key for key in (*planted.KEYS, planted.IN.ENVIRONMENT, planted.IN.LOG) if key in held
    ] == []


def test_the_ceilings_hold_while_a_copy_is_made(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stood still from the first trace to the last, so that nothing ended a copy."""
    from foretrace.cli import main

    def copy(*_: object) -> None:
        raise LimitError("E_TOO_SLOW", "x", "ended") if _counts() else AssertionError

    def _counts() -> bool:
        running = budget._current.get()
        return running is not None and running.waits == 0

    monkeypatch.setattr(chrome, "write_records", copy)
    assert main(["share", str(source), "--to", str(tmp_path / "out")]) == 3


def _verdict(found: Look) -> tuple[Any, ...]:
    """What bounds a step, and what to do first; without frames, a predicted time differs."""
    return found.verdict.bound, found.verdict.first.partition(":")[0]


def assert_the_same(path: Path, folder: Path) -> None:
    """The copy of a trace has its names, numbers, chains of ops and findings."""
    trace = foretrace.open(path, cache=False)
    private = Pseudonyms()
    copy = foretrace.open(redact(trace, folder, private=private), cache=False)
    before, after = look(trace), look(copy)
    assert (after.totals, after.steps) == (before.totals, before.steps)
    assert _verdict(after) == _verdict(before)
    fixes = [fix.name for fix in before.fixes]
    # frames show Python that a graph does not save
    more = {"cuda_graph"} if private.left_out["frame"] else set()
    assert [fix.name for fix in after.fixes if fix.name in fixes or fix.name not in more] == fixes
    plain = ("role", "family", "count", "per_step", "total_ns", "median_ns")
    rows = [
        [[getattr(row, key) for key in plain] for row in each.kernels] for each in (before, after)
    ]
    assert rows[0] == rows[1]
    for was, row in zip(before.kernels, after.kernels, strict=True):
        assert row.name == private.clean(was.name)
        assert [*row.chain] == [private.clean(op) for op in was.chain]
    said = [
        [(found.rule, found.state, found.at_most_ns, len(found.events)) for found in run_all(each)]
        for each in (trace, copy)
    ]
    assert said[0] == said[1]
    assert after.ledger.skipped == after.ledger.repaired == 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", sorted(traces(), key=lambda name: traces()[name].stat().st_size))
def test_a_copy_says_the_same_about_the_gpu(name: str, tmp_path: Path) -> None:
    assert_the_same(traces()[name], tmp_path)


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


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_copies_of_public_traces_say_the_same(tmp_path: Path) -> None:
    for path in sorted(Path(PUBLIC).rglob("*.json.gz")):
        if FULL or path.stat().st_size < 200_000:
            assert_the_same(path, tmp_path)


@looped(
    "name",
    [
        "aten::mm",
        "ProfilerStep#3",
        "Torch-Compiled Region: 0/0",
        "autograd::engine::evaluate_function: MmBackward0",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "triton_poi_fused__unsafe_view_gelu_mul_0",
        "Memcpy HtoD (Pageable -> Device)",
        "void cutlass::device_kernel<cutlass::gemm::collective::"
        "MainloopSm90TmaGmmaWarpSpecialized>",
        "nccl:all_reduce",
        "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi64ELi128ELi128ELi4EEELb0E",
        "## Call CompiledFxGraph fadri2gvaccdsuvko2wteeonnvzahljuczzqqcavvykm3cznaibj ##",
        "Optimizer.step#AdamW.step",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "nn.Module: LlamaMLP_3",
    ],
)
def test_names_of_machines_are_left_alone(name: str) -> None:
    assert Pseudonyms({"alice", "node7"}).clean(name) == name


def test_names_of_known_kernels_stay() -> None:
    files = [*FAMILIES.glob("examples/*.jsonl"), *FAMILIES.glob("*_names.jsonl")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    names = {json.loads(line)["name"] for line in lines if line}
    changed = [name for name in names if not pseudonyms.keeps(name)]
    assert len(names) > 500
    assert [name for name in changed if not name.endswith("v3Iff")] == []  # cut inside a word


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("triton_poi_fused_moonshot_gelu_0", "triton_poi_fused_*_gelu_0"),
        ("void at::native::kernel<MoonshotFunctor<float>, 4>(int)", "void at::native::kernel<*<float>, 4>(int)"),
        ("at::native::n017(at::Tensor const&)", "at::native::*(at::Tensor const&)"),
        ("_ZN2at6native15moonshot_kernelILi4EEEvi", "_ZN2at6native20*_kernelILi4EEEvi"),
        ("moonshot::gelu", "*::gelu"),
        ("autograd::engine::evaluate_function: MoonshotBackward0", "autograd::engine::evaluate_function: *"),
        ("Optimizer.step#Moonshot.step", "Optimizer.step#*.step"),
        ("moonshot step 3", "*"),
        ("load /data/model", "*"),
    ],
)  # fmt: skip
def test_a_word_of_the_user_has_a_pseudonym(text: str, shown: str) -> None:
    assert re.sub(r"(?:name|path)_[a-p]{8}", "*", Pseudonyms().clean(text)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("custom::alice_op", "custom::*_op"),
        ("AliceModel", "*Model"),
        ("aliceop", "*op"),
        ("malice", "malice"),
        ("run on node-7.lab", "run on *"),
        ("bob", "*"),
        ("bobbin", "bobbin"),
        ("aten::max", "aten::max"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("home_page", "home_page"),
    ],
)
def test_names_of_hosts_and_people_are_replaced_where_a_word_begins(text: str, shown: str) -> None:
    names = {"alice", "bob", "max", "triton", "node-7.lab", "node-7", "home"}
    said = Pseudonyms(names, frozenset({"names"})).clean(text)
    assert re.sub(r"(?:name|address)_[a-p]{8}(?:\.lab)?", "*", said) == shown


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/alice/run.py", {"alice"}),
        ("/mnt/data/home/alice/run.py", {"alice"}),
        (r"C:\Users\Alice Smith\run.py", {"Alice Smith", "Alice", "Smith"}),
    ],
)
def test_owners_of_paths(path: str, found: set[str]) -> None:
    assert owners([path]) == found


def test_a_pseudonym_is_the_same_in_one_run_and_another_in_the_next() -> None:
    first, second = Pseudonyms(), Pseudonyms()
    assert (
        first.clean("/home/alice/x")
        == first.clean("/home/alice/x")
        != second.clean("/home/alice/x")
    )


def test_an_unknown_word_to_keep_is_named() -> None:
    with pytest.raises(UsageError, match="stacks"):
        parse_keep("everything")
    assert parse_keep(",".join(KEEP)) == frozenset(KEEP)


def test_the_command_lists_what_remains(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foretrace.cli import main

    assert main(["share", str(source), "--to", str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["remains"]) == 4
    assert main(["share", str(source), "--to", str(tmp_path / "again")]) == 0
    removed, _, said = capsys.readouterr().err.partition("What remains")
    assert document["shared"][0]["removed"]["path"] == 3
    assert "- paths: 3" in removed
    assert "header entries" in removed
    assert document["unknown"] in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 100
    assert all(text in " ".join(said.split()) for text in document["remains"])
    assert document["shared"][0]["was_there"] is False
    assert main(["share", str(source)]) == 2
    assert "--to" in capsys.readouterr().err
