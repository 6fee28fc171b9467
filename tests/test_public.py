"""`import foretrace as ft`: the public names work in whatever order things are imported, and cost
nothing until used.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import foretrace

ORDERS = (
    "import foretrace as ft; ft.look; ft.compare",
    "import foretrace.overview, foretrace.comparison; import foretrace as ft",
    "from foretrace.overview import summarize; from foretrace.comparison import document; "
    "import foretrace as ft",
)


@pytest.mark.parametrize("order", ORDERS)
def test_functions_answer_in_any_order_of_imports(order: str) -> None:
    code = f"""
{order}
from foretrace import recordings
a, b = (ft.open(recordings.traces()[name], cache=False) for name in ("mlp_eager", "mlp_compiled"))
assert ft.look(a).totals.kernels == 15
assert ft.compare(a, b).kernels.fusions
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_costs_nothing() -> None:
    code = (
        "import foretrace, sys; print(sorted({'polars', 'numpy', 'torch', 'click', 'msgspec'} "
        "& set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )


def test_every_public_name_is_there() -> None:
    for name in foretrace.__all__:
        assert getattr(foretrace, name) is not None
    with pytest.raises(AttributeError):
        foretrace.nonsense  # noqa: B018
