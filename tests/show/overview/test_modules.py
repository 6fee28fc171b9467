"""The rows of modules in the document, the tree with equal layers as one, and its page."""

from __future__ import annotations

from pathlib import Path

from foretrace.schema.documents.look import ModuleRow
from foretrace.show.overview.look_document import ModuleNode, folded_tree, kinds
from foretrace.show.render.look_page import module_sections
from foretrace.show.render.terminal import drawn
from opened_traces import overview

MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"


def _row(name: str, path: list[str], ns: int, flops: int | None = None) -> ModuleRow:
    kind = name.rpartition("_")[0]
    return ModuleRow(name, 1, 1, ns, kind, path, ns, 0.0, ns, flops=flops)


ROWS = [
    _row("Net_0", [], 100, 60),
    _row("Layer_0", ["Net_0"], 40, 30),
    _row("Linear_0", ["Net_0", "Layer_0"], 25, 20),
    _row("Linear_1", ["Net_0", "Layer_0"], 10, 10),
    _row("Layer_1", ["Net_0"], 50, 30),
    _row("Linear_2", ["Net_0", "Layer_1"], 35, 20),
    _row("Linear_3", ["Net_0", "Layer_1"], 10, 10),
]


def _shown(nodes: list[ModuleNode], depth: int = 0) -> list[tuple[int, str, int, int]]:
    rows = []
    for node in nodes:
        rows.append((depth, node.row.kind, len(node.rows), node.sum("total_ns")))
        rows += _shown(node.children, depth + 1)
    return rows


def test_equal_layers_are_one_node() -> None:
    nodes = folded_tree(ROWS)
    assert _shown(nodes) == [
        (0, "Net", 1, 100),
        (1, "Layer", 2, 90),
        (2, "Linear", 2, 60),
        (2, "Linear", 2, 20),
    ]
    assert nodes[0].own("total_ns") == 10
    assert [(kind.kind, kind.modules, kind.total_ns) for kind in kinds(nodes)] == [
        ("Linear", 4, 80),
        ("Layer", 2, 10),
        ("Net", 1, 10),
    ]


def test_layers_with_other_sizes_stay_apart() -> None:
    rows = [*ROWS[:6], _row("Linear_3", ["Net_0", "Layer_1"], 10, 99)]
    assert [row[:3] for row in _shown(folded_tree(rows)) if row[0] == 1] == [(1, "Layer", 1)] * 2


def test_the_document_and_the_page_of_a_training_step() -> None:
    found = overview(MODULES).look
    rows = {row.name: row for row in found.modules}
    layer = rows["LlamaDecoderLayer_0"]
    assert (layer.kind, layer.folded) == ("LlamaDecoderLayer", 2)
    assert layer.path == ["LlamaForCausalLM_0", "LlamaModel_0"]
    assert rows["Linear_0"].folded == 2  # the query's and the output's
    assert rows["optimizer"].kind == ""
    page = drawn(module_sections(found), width=120)
    lines = {line.split("  ")[0]: line for line in map(str.strip, page.splitlines())}
    assert "1.28 ms" in lines["LlamaDecoderLayer x2"]
    assert lines["optimizer"].split() == ["optimizer", "898", "us", "13.9%"]
    kernel = next(row for row in found.kernels if row.short == "embedding bwd bf16")
    assert kernel.modules == ["Embedding_0"]
