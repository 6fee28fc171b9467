from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.proposing import FixUnderTest


@pytest.fixture
def fix(request: pytest.FixtureRequest, tmp_path: Path) -> FixUnderTest:
    """The fix that the test file is named after."""
    return FixUnderTest(request.path.stem.removeprefix("test_"), tmp_path)
