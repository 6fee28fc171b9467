"""The fast reader agrees with a slow one that is plain enough to be checked by eye.

`test_corpus.py` says so of the odd and broken traces, `test_recorded.py` of the recorded ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import reference_reader
from corpus.agreement import assert_agree
from corpus.opening import open_at
from corpus.places import public_traces


@pytest.mark.public
@pytest.mark.parametrize(
    "path", public_traces() or [None], ids=lambda path: path.name[:-8] if path else "none"
)
def test_public_agree(path: Path | None) -> None:
    """Traces of other cards and producers, where they are at hand."""
    if path is None:
        pytest.skip("FORETRACE_PUBLIC_TRACES names no folder of traces")
    opened = open_at(path)
    slow = reference_reader.read(path.read_bytes())
    assert_agree(opened, slow)
    assert opened.ledger.seen == slow.seen
    assert opened.ledger.skipped == 0, "nothing is lost"
