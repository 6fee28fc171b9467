"""A folder of traces, and a viewer that serves it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from foretrace.read.recordings import traces
from pages.serve.running import Viewer, viewer

SECRET = "canary outside the folder"
PASSWD = Path("/etc/passwd")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three traces, a link out of it, and a secret beside it."""
    root = tmp_path_factory.mktemp("served")
    (root / "secret.json").write_text(
        json.dumps({"traceEvents": [{"ph": "X", "name": SECRET, "ts": 1, "dur": 1}]})
    )
    folder = root / "traces"
    (folder / "sub").mkdir(parents=True)
    for name, place in (
        ("mlp_eager", folder),
        ("mlp_compiled", folder),
        ("matmul_add_64_eager", folder / "sub"),
    ):
        shutil.copy(traces()[name], place)
    (folder / "out.json").symlink_to(root / "secret.json")
    (folder / "passwd.json").symlink_to(PASSWD)
    (folder / "loop").symlink_to(folder)
    return folder


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Viewer]:
    pytest.importorskip(
        "starlette", reason="starlette is not installed: pip install 'foretrace[serve]'"
    )
    with viewer(str(home)) as running:
        yield running
