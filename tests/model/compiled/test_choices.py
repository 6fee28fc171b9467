"""Inductor's answers, pair by pair."""

from __future__ import annotations

from collections import Counter

from foretrace.model.compiled.scheduler import parse_choices
from foretrace.schema.compiler import FusionChoice
from model.compiled.recorded import logs, message, texts_of

ROUND = "===== attempting fusion (1/10): 4 nodes ====="


def test_the_534_refusals_of_a_training_step() -> None:
    """Counted here line by line, without the parser."""
    fusion = [text.text for text in logs("llama_train").texts if text.channel == "fusion"]
    lines = [line for text in fusion for line in text.splitlines() if "cannot fuse" in line]
    refused = [each for each in parse_choices(texts_of("llama_train", "0/0")) if not each.fused]
    assert len(lines) == sum(each.times for each in refused) == 534
    words = Counter[str]()
    for each in refused:
        words[each.words.split(" (")[0]] += each.times
    assert words == Counter(line.split(": ", 1)[1].split(" (")[0] for line in lines)
    assert {each.graph for each in refused} == {0, 1}


def test_a_refusal_is_asked_again_in_every_round() -> None:
    found = {(each.a, each.b): each for each in parse_choices(texts_of("unfusable", "1/0"))}
    assert found["op3", "op4"] == FusionChoice("op3", "op4", False, "no shared data", 3)
    assert found["op5", "op6"] == FusionChoice("op5", "op6", True)


def test_a_gemm_is_never_asked_about() -> None:
    assert parse_choices(texts_of("mlp", "0/0")) == ()


def test_forward_and_backward_are_two_schedulers() -> None:
    both = message("fusion", f"{ROUND}\nfusing op0 with op1\n{ROUND}\nfusing op0 with op1")
    assert [each.graph for each in parse_choices([both])] == [0, 1]


def test_a_pair_that_was_slower_as_one_kernel() -> None:
    line = (
        "cannot fuse (benchmark): fusing OrderedSet(['buf1', 'buf2']) with OrderedSet(['buf3']) "
        "cause \x1b[31m1.250\x1b[0mx slowdown"
    )
    (found,) = parse_choices([message("fusion", line)])
    assert found == FusionChoice("buf1_buf2", "buf3", False, "benchmark: 1.250x slowdown")


def test_other_channels_and_other_lines_are_no_choices() -> None:
    other = message("output_code", "cannot fuse op1 with op2: no shared data")
    assert parse_choices([other, message("fusion", "found 0 possible fusions")]) == ()
