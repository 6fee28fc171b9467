"""An installed package adds a kernel family by an entry point alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

FAMILY = """
from foretrace.schema.kernel import Family, KernelId

def decode(name):
    return KernelId(name, "frob", "frobnicator", "gemm") if name.startswith("frob_") else None

FAMILY = Family("frobnicator", decode, order=1)
"""
FILES = {
    "frobnicator.py": FAMILY,
    "frobnicator-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: frobnicator\nVersion: 1.0\n",
    "frobnicator-1.0.dist-info/entry_points.txt": (
        "[foretrace.families]\nfrobnicator = frobnicator:FAMILY\n"
    ),
}


def family_of(name: str, place: Path | None) -> str:
    """The family that a fresh process with `place` on its path finds for a kernel name."""
    path = [str(place)] if place else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}
    code = f"from foretrace import families; print(families.decode({name!r}).family)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_a_package_brings_a_family(tmp_path: Path, packed: bool) -> None:
    place = tmp_path / "site"
    if packed:
        with zipfile.ZipFile(place, "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
    else:
        for name, text in FILES.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    assert family_of("frob_256x128", place) == "frobnicator"
    assert family_of("frob_256x128", None) != "frobnicator"


def test_metadata_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "odd-1.0.dist-info" / "entry_points.txt").mkdir(parents=True)
    assert family_of("frob_256x128", tmp_path) != "frobnicator"
