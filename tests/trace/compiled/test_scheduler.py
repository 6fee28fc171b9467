"""The scheduler's lists and choices, against other lines of the same log."""

from __future__ import annotations

from collections import Counter

from compiled_recordings import logs, message, texts_of
from foretrace.read.compiler.records import FusionChoice, NamedTensor, SchedulerNode
from foretrace.trace.compiled.scheduler import parse_choices, parse_nodes, walk

DYNAMIC = """BEFORE FUSION
op0: SchedulerNode(ComputedBuffer)
op0.writes = [MemoryDep('buf0', 0, {})]
op0.unmet_dependencies = []
op0.met_dependencies = [MemoryDep('arg2_1', ModularIndexing(2*c0, 1, s27*s77), {c0: s27*s77})]
op0.outputs = [
    buf0: ComputedBuffer
    buf0.layout = FixedLayout('cpu', torch.float32, size=[], stride=[])
    buf0.users = [NodeUser(node=OUTPUT, can_inplace=False, is_weak=False)]
]
op0.group.device = cpu
op0.group.iteration = ((), (((s27*s77 + 1)//2),))
op0.sizes = ((), (((s27*s77 + 1)//2),))
arg2_1_layout = FixedLayout('cpu', torch.float32, size=[s77, Max(1, s27)], stride=[s27, 1])


op1_op2: ForeachKernelSchedulerNode(SchedulerNode,SchedulerNode)
op1_op2.writes = [MemoryDep('buf1', c0, {c0: 64})]
op1_op2.unmet_dependencies = [WeakDep(name='buf0', mutating_buf='buf1', is_fake=False)]
op1_op2.met_dependencies = [StarDep(name='arg0_1', mode=None)]
op1_op2.outputs = [
    buf1: ComputedBuffer
    buf1.layout = MutationLayoutSHOULDREMOVE('cpu', torch.float32, size=[64], stride=[1])
    buf1.mutations = ['arg0_1']
    buf1.users = []
]
op1_op2.snodes[0] =
op1: SchedulerNode(ComputedBuffer)
op1.writes = [MemoryDep('buf1', c0, {c0: 64})]
op1.group.iteration = (64, 1)
"""


def _nodes(run: str, compile_id: str, channel: str) -> list[tuple[SchedulerNode, ...]]:
    found = [each for each in logs(run).texts if each.channel == channel]
    return [parse_nodes(each.text) for each in found if each.compile_id == compile_id]


def test_the_gemms_and_the_loop_of_an_mlp() -> None:
    (nodes,) = _nodes("mlp", "0/0", "ir_post_fusion")
    assert [each.kind for each in nodes] == ["extern", "extern", "pointwise", "extern"]
    gelu = nodes[2]
    assert (gelu.reads, gelu.writes) == (("buf0", "buf1"), ("buf2",))
    assert gelu.iteration == (25165824, 1)
    assert gelu.tensors[0].bytes == gelu.operands[0].bytes == 50331648
    assert nodes[0].target == "extern_kernels.mm"
    assert nodes[3].returned == ("buf3",)


def test_members_after_fusion_are_the_nodes_before() -> None:
    before, after = (
        _nodes("llama_train", "0/0", channel) for channel in ("ir_pre_fusion", "ir_post_fusion")
    )
    for first, last in zip(before, after, strict=True):
        members = Counter(member for node in last for member in node.members)
        assert members == Counter(node.name for node in first)
        assert {name for node in first for name in node.writes} == {
            name for node in last for name in node.writes
        }


def test_symbols_mutations_and_foreach() -> None:
    first, second = parse_nodes(DYNAMIC)
    assert first.iteration == (1, "((s27*s77 + 1)//2)")
    assert first.kind == "reduction"
    assert first.operands == (
        NamedTensor("arg2_1", "f32", ("s77", "Max(1, s27)"), ("s27", 1), "cpu"),
    )
    assert (second.kind, second.mutates, second.waits) == ("foreach", ("arg0_1",), ("buf0",))
    assert second.reads == ("arg0_1",)


def test_the_same_walk_in_other_loops() -> None:
    whole = (0, ((1, 25165824),))
    assert walk("3072*d0 + d1, {d0: 8192, d1: 3072}") == walk("c0, {c0: 25165824}") == whole
    assert walk("393216*d0 + 3072*d1 + d2, {d0: 64, d1: 128, d2: 3072}") == whole
    assert walk("c0 + 32, {c0: 64}") == (32, ((1, 64),))
    assert walk("c0 + 1024*c1, {c0: 1024, c1: 8}") == (0, ((1, 1024), (1024, 8)))
    assert walk("c1, {c0: 4, c1: 8}") == (0, ((0, 4), (1, 8)))
    assert walk("0, {}") == (0, ())
    for text in ("ModularIndexing(c0, 1, 32), {c0: 64}", "c0, {c0: s77}", "c0 - 32, {c0: 64}", ""):
        assert walk(text) is None


def test_the_534_refusals_of_a_training_step() -> None:
    """Counted here line by line, without the parser."""
    fusion = [text.text for text in logs("llama_train").texts if text.channel == "fusion"]
    lines = [line for text in fusion for line in text.splitlines() if "cannot fuse" in line]
    refused = [each for each in parse_choices(texts_of("llama_train", "0/0")) if not each.fused]
    assert len(lines) == sum(each.times for each in refused) == 534
    words = Counter[str]()
    for each in refused:
        words[each.words.split(" (")[0]] += each.times
    assert words == Counter(line.split(": ", 1)[1].split(" (")[0] for line in lines)
    assert {each.graph for each in refused} == {0, 1}


def test_a_pair_that_was_slower_as_one_kernel() -> None:
    line = (
        "cannot fuse (benchmark): fusing OrderedSet(['buf1', 'buf2']) with OrderedSet(['buf3']) "
        "cause \x1b[31m1.250\x1b[0mx slowdown"
    )
    (found,) = parse_choices([message("fusion", line)])
    assert found == FusionChoice("buf1_buf2", "buf3", False, "benchmark: 1.250x slowdown")
