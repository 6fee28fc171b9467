"""`import foretrace as ft`: the public names work in whatever order things are imported, cost
nothing until used, and are typed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import foretrace

ROOT = Path(__file__).parent.parent
ORDERS = (
    "import foretrace.look, foretrace.compare; import foretrace as ft",
    "from foretrace.look import summarize; from foretrace.compare import document; "
    "import foretrace as ft",
)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("order", ORDERS)
def test_functions_answer_in_any_order_of_imports(order: str) -> None:
    code = f"""
{order}
from foretrace.read import recordings
a, b = (ft.open(recordings.traces()[name], cache=False) for name in ("mlp_eager", "mlp_compiled"))
assert ft.look(a).totals.kernels == 15
assert ft.compare(a, b).kernels.fusions
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_importing_costs_nothing() -> None:
    heavy = {"polars", "numpy", "torch", "click", "msgspec"}
    done = python(f"import foretrace, sys; print(sorted({heavy} & set(sys.modules)))")
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in foretrace.__all__:
        assert getattr(foretrace, name) is not None
    with pytest.raises(AttributeError):
        foretrace.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    """The imports for type checkers and the table for `__getattr__` name the same places."""
    tree = ast.parse(Path(foretrace.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: (str(node.module).removeprefix("foretrace."), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    places = {
        name: (where.partition(":")[0], where.partition(":")[2] or name)
        for name, where in foretrace._PUBLIC.items()
    }
    assert typed == places
    assert {*places, "__version__"} == set(foretrace.__all__)


def test_in_a_notebook_results_know_how_they_are_drawn() -> None:
    code = """
import sys, types
sys.modules["IPython"] = types.ModuleType("IPython")
import foretrace as ft
from foretrace.read import recordings
print(ft.open(recordings.traces()["linear_eager"], cache=False)._repr_html_()[:5])
"""
    assert python(code).stdout.strip() == "<div>"


def test_a_script_that_mypy_checks_uses_every_public_name() -> None:
    """`make types` checks that nothing in it is `Any`."""
    script = ROOT / "tests" / "user_script.py"
    used = {
        node.attr
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ft"
    }
    assert used == set(foretrace.__all__)
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert script.stem in checked["modules"]
    assert {"module": script.stem, "disallow_any_expr": True} in checked["overrides"]


def test_names_and_paths_do_for_traces_and_results_print_as_the_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from foretrace.cli import main

    def printed(*words: str) -> list[str]:
        main(list(words))
        return capsys.readouterr().out.split()  # a terminal has another width

    assert str(foretrace.look("mlp_eager")).split() == printed("look", "mlp_eager")
    found = foretrace.compare("mlp_eager", Path(foretrace.open("mlp_compiled").path))
    assert str(found).split() == printed("compare", "mlp_eager", "mlp_compiled")
    assert str(foretrace.check("mlp_eager", "kernels == 5")).startswith("1 prediction: 1 hit")
    assert str(foretrace.findings("mlp_eager")).startswith("Compiling can help")
