"""What an installation brings is pinned by its bytes, listed, and asked about."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUN = (ROOT / "requirements" / "run.txt").read_text()


@pytest.mark.parametrize("name", ["run.txt", "pip.txt", "dev.txt"])
def test_every_pin_has_its_hashes(name: str) -> None:
    blocks = (ROOT / "requirements" / name).read_text().replace(" \\\n", " ").splitlines()
    pins = [block for block in blocks if not block.startswith("#")]
    assert pins
    assert not [pin for pin in pins if not re.search(r"==\S+.* --hash=sha256:[0-9a-f]{64}", pin)]


def _audit() -> dict[str, object]:
    pytest.importorskip("cyclonedx")
    return runpy.run_path(str(ROOT / "tools" / "audit.py"))


def test_the_list_names_every_package_with_its_license() -> None:
    tool = _audit()
    listed = json.loads(tool["sbom"](RUN))["components"]  # type: ignore[operator]
    assert {(each["name"], each["version"]) for each in listed} == set(tool["pins"](RUN))  # type: ignore[operator]
    polars = next(each for each in listed if each["name"] == "polars")
    assert polars["licenses"][0]["license"]["name"] == "MIT License"


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([], 0, "audit: not done"),
        ([{"name": "a", "skip_reason": "not found"}], 0, "audit: not done"),
        ([{"name": "a", "version": "1", "vulns": []}], 0, "nothing known against 1 package"),
        ([{"name": "a", "version": "1", "vulns": [{"id": "X-1"}]}], 1, "a 1 is vulnerable: X-1"),
    ],
)
def test_an_audit_fails_on_what_is_known_only(
    capsys: pytest.CaptureFixture[str], packages: list[object], code: int, said: str
) -> None:
    assert _audit()["audited"](packages) == code  # type: ignore[operator]
    assert said in capsys.readouterr().out
