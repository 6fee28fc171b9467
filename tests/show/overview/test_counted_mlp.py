"""A gated MLP of an H200, eager and compiled: trace and counters as `foretrace counters` left them."""

from __future__ import annotations

import pytest

from counter_files import FOLDER, recorded
from foretrace.model import opening
from foretrace.model.counters.join import LAST, Wanted
from foretrace.read.ncu import read_export
from foretrace.schema.documents.counters import CountersDocument
from foretrace.show.overview.counters import Exported, counters_document, with_earlier


def _counted(name: str) -> CountersDocument:
    logs = [f"mlp_{name}_{number}" for number in (1, 2)]
    trace = opening.open(FOLDER / f"h200_mlp_{name}.json.gz", cache=False)
    exports = [Exported(read_export(recorded(log), log), Wanted(LAST)) for log in logs]
    return counters_document(trace, exports)


@pytest.fixture(scope="module")
def eager() -> CountersDocument:
    return _counted("eager")


@pytest.fixture(scope="module")
def compiled() -> CountersDocument:
    return _counted("compiled")


def test_every_launch_is_joined(eager: CountersDocument, compiled: CountersDocument) -> None:
    assert [(run.launches, run.joined) for run in eager.runs] == [(5, 5)] * 2
    assert [(run.launches, run.joined) for run in compiled.runs] == [(4, 4)] * 2
    assert {kernel.passes for kernel in (*eager.kernels, *compiled.kernels)} == {1}


def test_threads_move_what_the_shapes_say(eager: CountersDocument) -> None:
    for name in ("gelu", "mul bf16"):
        (kernel,) = (each for each in eager.kernels if each.kernel == name)
        assert kernel.bytes.l2 == pytest.approx(kernel.must_move, rel=0.001)


def test_half_of_what_passes_through_l2_is_looked_up_twice(eager: CountersDocument) -> None:
    """The lookups are those of the multiprocessors and those between the halves of L2."""
    (mul,) = (each for each in eager.kernels if each.kernel == "mul bf16")
    counted = mul.bytes
    assert counted.l2 is not None
    assert counted.l2_fabric == pytest.approx(counted.l2 / 2, rel=0.01)
    assert counted.l2_lookups == pytest.approx(counted.l2 * 1.5, rel=0.01)


def test_fusing_saved_a_read_and_a_write(
    eager: CountersDocument, compiled: CountersDocument
) -> None:
    """100.7 MB are one write and one read of 8192x3072 in bf16."""
    found = with_earlier(compiled, eager, "before.json").against
    assert found is not None
    assert "105.4 MB less" in " ".join(found.sentences)
