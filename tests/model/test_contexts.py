"""The requests of a step, as the cost of attention takes them."""

import pytest

from foretrace.model.costs import Context
from foretrace.model.serving import context_of

DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"


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
