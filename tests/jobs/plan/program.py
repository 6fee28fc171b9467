"""What one rank does in a job, in the order in which its host does it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from jobs.plan.layout import Group, place
from jobs.plan.plan import Plan

# op, kernel: a layer cycles through these
LAYER = (
    ("aten::mm", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN"),
    (
        "aten::mul",
        "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>",
    ),
    ("aten::silu", "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel>"),
    ("aten::mean", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps>>"),
    ("aten::_to_copy", "void at::native::unrolled_elementwise_kernel<at::native::copy_kernel>"),
)
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
EXTRA = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
BYTES = 2  # bf16


class Begin(Struct, frozen=True):
    step: int


class End(Struct, frozen=True):
    """The host waits for the GPU, and the step ends."""

    step: int


class Work(Struct, frozen=True):
    """The host is busy: loading data, or with Python."""

    name: str
    ns: int


class Kernel(Struct, frozen=True):
    op: str
    name: str
    ns: int
    shape: tuple[int, ...] = ()


class Copy(Struct, frozen=True):
    ns: int


class Talk(Struct, frozen=True):
    """A collective. `key` is the same on all ranks that meet in it; `peer` is set for send and
    receive alone, and each pair of ranks has a stream of its own.
    """

    group: Group
    kind: str
    in_elements: int
    out_elements: int
    key: tuple[object, ...]
    peer: int | None = None


class Await(Struct, frozen=True):
    """The compute stream waits for what a group, or a peer in it, has been given so far."""

    group: Group
    peer: int | None = None


Instruction = Begin | End | Work | Kernel | Copy | Talk | Await


def program(plan: Plan, rank: int, groups: list[Group]) -> Iterator[Instruction]:
    """The instructions of a rank."""
    own = {group.kind: group for group in groups if rank in group.ranks}
    for step in range(plan.steps):
        yield Begin(step)
        yield Work(LOADER, plan.load_ns + plan.delay("data", rank, step))
        if extra := plan.delay("host", rank, step):
            yield Work("prepare", extra)
        yield Copy(plan.copy_ns + plan.delay("copies", rank, step))
        yield from _train(plan, rank, step, own)
        yield Kernel("Optimizer.step#AdamW.step", ADAM, plan.optimizer_ns)
        yield End(step)


def _train(plan: Plan, rank: int, step: int, own: dict[str, Group]) -> Iterator[Instruction]:
    slower = plan.delay("compute", rank, step) // (plan.layers * plan.microbatches)
    if extra := plan.delay("code", rank, step):
        yield Kernel("aten::add", EXTRA, extra)
    stage = place(plan, rank)["pipeline"]
    for batch in range(plan.microbatches):
        yield from _peer(plan, rank, own, (step, batch, "f"), stage - 1, "recv")
        for layer in range(plan.layers):
            if plan.sharded and batch == 0:
                yield from _gradients(plan, own, "_allgather_base", (step, layer), wait=True)
            yield from _layer(plan, plan.forward_ns + slower)
            yield from _tensor(plan, own, (step, batch, layer, "f"))
        yield from _peer(plan, rank, own, (step, batch, "f"), stage + 1, "send")
    for batch in range(plan.microbatches):
        yield from _peer(plan, rank, own, (step, batch, "b"), stage + 1, "recv")
        for layer in range(plan.layers):
            yield from _layer(plan, plan.backward_ns)
            yield from _tensor(plan, own, (step, batch, layer, "b"))
            if batch == plan.microbatches - 1:
                kind = "_reduce_scatter_base" if plan.sharded else "allreduce"
                yield from _gradients(plan, own, kind, (step, layer), wait=not plan.overlap)
        yield from _peer(plan, rank, own, (step, batch, "b"), stage - 1, "send")
    if "data" in own:
        yield Await(own["data"])


def _layer(plan: Plan, ns: int) -> Iterator[Instruction]:
    for at in range(plan.kernels):
        op, name = LAYER[at % len(LAYER)]
        yield Kernel(op, name, ns // plan.kernels, (4096, 4096))


def _gradients(
    plan: Plan, own: dict[str, Group], kind: str, at: tuple[int, int], *, wait: bool
) -> Iterator[Instruction]:
    """The gradients, or with `_allgather_base` the weights, of a layer."""
    if group := own.get("data"):
        whole = plan.gradient_bytes // BYTES
        part = whole if kind == "allreduce" else whole // plan.data
        sizes = (part, whole) if kind == "_allgather_base" else (whole, part)
        yield Talk(group, kind, *sizes, (kind, group.name, *at))
        if wait:
            yield Await(group)


def _tensor(plan: Plan, own: dict[str, Group], at: tuple[object, ...]) -> Iterator[Instruction]:
    """Partial results of a layer are summed over the tensor-parallel group: nothing overlaps."""
    if group := own.get("tensor"):
        elements = plan.activation_bytes // BYTES
        yield Talk(group, "allreduce", elements, elements, ("tensor", group.name, *at))
        yield Await(group)


def _peer(
    plan: Plan,
    rank: int,
    own: dict[str, Group],
    at: tuple[object, ...],
    stage: int,
    kind: str,
) -> Iterator[Instruction]:
    """Activations to the next stage, gradients to the one before."""
    group = own.get("pipeline")
    if group is None or not 0 <= stage < plan.pipeline:
        return
    peer = group.ranks[stage]
    pair = (rank, peer) if kind == "send" else (peer, rank)
    elements = plan.activation_bytes // BYTES
    yield Talk(group, kind, elements, elements, ("peer", *pair, *at), peer)
    if kind == "recv":
        yield Await(group, peer)
