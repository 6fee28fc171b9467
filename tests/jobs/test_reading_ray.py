"""Tasks of a Ray cluster give what processes of this machine give."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foretrace import jobs
from foretrace.base.errors import UsageError
from foretrace.jobs import reading
from jobs.plan import Gaps, Plan, write
from jobs.test_reading import same

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.sweep]  # one cluster serves all
DIED, read_here = ".died", reading.encoded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six ranks, an empty file, and one that is damaged."""
    place = tmp_path_factory.mktemp("on_ray")
    write(Plan(data=8, gaps=Gaps(empty=(3,), damaged=(5,))), place)
    return place


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a node that runs two tasks at a time."""
    ray = pytest.importorskip("ray")  # slow to import: not in every worker
    from ray.cluster_utils import Cluster

    size: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 << 20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # the nodes have what is tested
        made = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
        try:
            yield made.address
        finally:
            ray.shutdown()
            made.shutdown()


def killed(path: str, limits: Any, cache: bool) -> bytes:
    """What a task runs here: the first worker that is given rank 1 is killed while it reads, and
    every one that is given rank 2.
    """
    mark = Path(path + DIED)
    if "_4002." in path or ("_4001." in path and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return read_here(path, limits, cache)


def test_killed_workers(folder: Path, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that kills one worker is read by the next; one that kills every worker is left out."""
    monkeypatch.setattr(reading, "encoded", killed)
    monkeypatch.setattr(reading, "RETRIES", 1)
    with (
        jobs.read(folder, ranks="0-1,3-7", cache=False) as here,
        jobs.read(folder, ray=cluster, cache=False) as job,
    ):
        assert [each.rank for each in job.facts] == [0, 1, 4, 6, 7]
        assert len(list(folder.glob(f"*{DIED}"))) == 2
        assert here.facts == job.facts
        same(here, job, paths=False)
        assert "the system ended the process" in " ".join(each.text for each in job.left_out)
    assert not sys.modules["ray"].is_initialized()


def test_no_cluster(folder: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="no Ray cluster answers"):
        jobs.read(folder, ray="127.0.0.1:1")
    with pytest.raises(UsageError, match="no Ray cluster answers"):
        jobs.read(folder, ray="127.0.0.1:99999")
