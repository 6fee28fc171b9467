"""What serving engines say in the names of their ranges, and which work belongs to a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.trace.serving import NONE, Requests, ServedBatch, context_of, served_batch
from foretrace.work.costs import Context
from opened_traces import H200, MM, open_made

EXECUTE = "execute_34_context_2(sq30sk50sqsq500sqsk900)_generation_4(sq4sk4000sqsq4sqsk4000)"
COUNTED = "execute_context_1(512)_generation_32(32)"
DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (EXECUTE, ServedBatch(Requests(2, 30, 50, 900, 500), Requests(4, 4, 4000, 4000, 4))),
        (DECODE, ServedBatch(NONE, Requests(32, 32, 32785, 32785, 32))),
        (COUNTED, ServedBatch(Requests(1, 512), Requests(32, 32))),
        ("execute_context_0(0)_generation_32(32)", ServedBatch(NONE, Requests(32, 32))),
        ("execute_context_1(888_788544)_generation_0(0)", ServedBatch(Requests(1, 888), NONE)),
        ("step[DECODE bs=32]", ServedBatch(NONE, Requests(32, 32))),
        ("step[EXTEND bs=15 toks=15360]", ServedBatch(Requests(15, 15360), NONE)),
        ("decode bs=8", ServedBatch(NONE, Requests(8, 8))),
        (
            "step[DECODE bs=4 g_sq=4 g_sqsq=4 g_sqsk=4000 g_sk=4000 forward_id=7]",
            ServedBatch(NONE, Requests(4, 4, 4000, 4000, 4)),
        ),
        (
            "step[EXTEND bs=2 toks=30 c_sq=30 c_sqsq=500 c_sqsk=900 c_sk=50]",
            ServedBatch(Requests(2, 30, 50, 900, 500), NONE),
        ),
        (
            "step[MIXED bs=6 c=2 g=4 c_sq=30 c_sk=50 c_sqsq=500 c_sqsk=900 g_sq=4 g_sk=4000 g_sqsq=4 g_sqsk=4000]",
            served_batch(EXECUTE),
        ),
    ],
)
def test_an_annotation_is_read(name: str, wanted: ServedBatch) -> None:
    assert served_batch(name) == wanted


@pytest.mark.parametrize(
    "name",
    ["ProfilerStep#3", "forward", "step[EXTEND bs=15]", "decode bs=0", "decoder bs=4", "step[MIXED bs=4]",
     "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)", "execute_1_context_x",
     "execute_context_0(0)_generation_0(0)"],
)  # fmt: skip
def test_other_names_say_nothing(name: str) -> None:
    assert served_batch(name) is None


def test_sums_and_kinds() -> None:
    both = served_batch(EXECUTE)
    assert both is not None
    assert (both.kind, both.tokens, both.context, both.total("pairs")) == ("mixed", 34, 4050, 4900)
    step = served_batch("step[DECODE bs=32]")
    assert step is not None
    assert (step.kind, step.context, step.total("pairs")) == ("decode", None, None)


def _trace(tmp_path: Path) -> ft.Trace:
    """A decode with a step of SGLang inside, then a prefill, a matmul each; work outside both."""
    builder = TraceBuilder(header=H200)
    builder.region(DECODE, 0, 390_000).region("step[DECODE bs=32]", 1_000, 380_000)
    builder.region("step[EXTEND bs=2 toks=600]", 400_000, 390_000)
    for start in (2_000, 410_000, 900_000):
        builder.op("aten::mm", start, 5_000, **MM).launch(start + 1_000, 500)
        builder.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_TNT", start + 2_000, 200_000)
    return open_made(builder, tmp_path)


def test_work_belongs_to_the_batch_that_says_most(tmp_path: Path) -> None:
    served = _trace(tmp_path).served
    assert [batch.kind for batch in served.batches] == ["decode", "prefill"]
    assert served.batches[0].context == 32785
    assert served.batch_of_work.tolist() == [0, 1, -1]
    assert served.at(2) is None
    assert served.at(1) == ServedBatch(Requests(2, 600), NONE)


def test_decoding_requests() -> None:
    found = context_of(DECODE)
    assert found == Context(requests=32, queries=32, keys=32_785, pairs=32_785, squares=32)
    assert found.causal_pairs == 32_785, "a new token looks at all that precede it, and itself"


def test_prefill_and_decoding_together() -> None:
    """2 tokens behind 3 others and 4 alone: 4 + 5 and 1 + 2 + 3 + 4 pairs; 60 more decode."""
    found = context_of("execute_9_context_2(sq6sk9sqsq20sqsk26)_generation_3(sq3sk60sqsq3sqsk60)")
    assert found == Context(5, 9, 69, 86, 23)
    assert found.causal_pairs == 4 + 5 + 10 + 60


@pytest.mark.parametrize("name", ["step[DECODE bs=32]", "ProfilerStep#3", "execute_model", ""])
def test_other_annotations_state_no_lengths(name: str) -> None:
    assert context_of(name) is None
