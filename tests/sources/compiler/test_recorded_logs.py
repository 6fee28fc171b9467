"""The four recorded compiles: every record is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from foretrace.sources import compiler

COMPILE = Path(__file__).parents[2] / "data" / "compile"


@pytest.mark.parametrize(
    ("name", "records", "texts"),
    [("mlp", 136, 16), ("unfusable", 276, 54), ("recompiles", 276, 32), ("llama_train", 350, 662)],
)
def test_everything_is_kept(name: str, records: int, texts: int) -> None:
    logs = compiler.read(str(COMPILE / name))
    assert (len(logs.records), len(logs.texts), logs.ledger.skipped) == (records, texts, 0)


def test_kinds_of_the_mlp() -> None:
    kinds = Counter(record.kind for record in compiler.read(str(COMPILE / "mlp")).records)
    assert (kinds["inductor_output_code"], kinds["dynamo_output_graph"]) == (1, 1)
