# mypy: ignore-errors
"""The activation's gradient in the epilogue of `dm = dy Wd`, warp-specialised, for Hopper.

A second producer warp brings the gate and up values of a tile, or their `math.factors`, a quarter
of the tile at a time, into a ring of their own, far ahead of the epilogue that needs them. The
epilogue writes the two gradients over them in shared memory, and TMA stores them from there: they
need no further memory.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from foretrace.kernels.device.pingpong import (
    CONSUMER,
    PRODUCER,
    barriers,
    gradients,
    halves,
    load_product,
    product_in_turn,
    stage_to_fill,
    tile_at,
    tma_load,
    tma_store,
    upper_and_lower,
)


@gluon.jit
def _produce(
    tensors, rings, sync, dims,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n, steps = dims
    loaded = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        load_product(tensors, rings, sync, row, col, loaded, steps, BM, BN, BK, STAGES, False)
        loaded += steps


@gluon.jit
def _produce_pre(
    tensors, slots, sync, dims,
    BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr, RING: gl.constexpr,
):  # fmt: skip
    gate, up = tensors
    gates, ups = slots
    tiles_m, tiles_n, _ = dims
    H: gl.constexpr = BM // 2
    Q: gl.constexpr = BN // 2
    loaded = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        for quarter in range(4):
            slot = stage_to_fill(sync, loaded, 2 * H * Q * 2, RING)
            bar = sync[0].index(slot)
            at = [row * BM + quarter // 2 * H, col * BN + quarter % 2 * Q]
            tma_load(gate, at, bar, gates.index(slot))
            tma_load(up, at, bar, ups.index(slot))
            loaded += 1


@gluon.jit
def _finish(
    dm, row, col, at, outputs, slots, sync,
    ACT: gl.constexpr, RING: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """The gradients of one quarter, the `at`-th of this program, over its gate and up values."""
    d_gate, d_up = outputs
    gates, ups = slots
    ready, free = sync
    slot = at % RING
    gate_at, up_at = gates.index(slot), ups.index(slot)
    mbarrier.wait(ready.index(slot), (at // RING) & 1)
    layout: gl.constexpr = dm.type.layout
    gate = gate_at.load(layout).to(gl.float32)
    up = up_at.load(layout).to(gl.float32)
    of_gate, of_up = gradients(dm, gate, up, ACT, False)
    gate_at.store(of_gate.to(gates.dtype))
    up_at.store(of_up.to(gates.dtype))
    fence_async_shared()
    tma_store(d_gate, [row, col], gate_at)
    tma_store(d_up, [row, col], up_at)
    if not FIRST:  # the stores of the quarter before have left its slot
        tma.store_wait(2)
        mbarrier.arrive(free.index((at - 1) % RING), count=1)


@gluon.jit
def _consume(
    data, WHO: gl.constexpr, ACT: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr, RING: gl.constexpr,
):  # fmt: skip
    outputs, rings, slots, sync, slot_sync, finishing, dims = data
    tiles_m, tiles_n, steps = dims
    H: gl.constexpr = BM // 2
    Q: gl.constexpr = BN // 2
    programs = gl.num_programs(0)
    taken = 0
    for tile in range(gl.program_id(0) + WHO * programs, tiles_m * tiles_n, 2 * programs):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        begin = (2 * taken + WHO) * steps
        acc = product_in_turn(rings, sync, begin, steps, taken, WHO, BM, BN, STAGES, False)
        upper, lower = upper_and_lower(acc, BM, BN)
        dm0, dm1 = halves(upper, H, BN)
        dm2, dm3 = halves(lower, H, BN)
        at = (2 * taken + WHO) * 4
        top, edge = row * BM, col * BN
        # In turns: a barrier cannot tell a phase from the one after the next, so that without the
        # other consumer's wait between them, this one could pass before its own values are there.
        mbarrier.wait(finishing.index(WHO), (taken & 1) ^ (1 - WHO))
        _finish(dm0, top, edge, at, outputs, slots, slot_sync, ACT, RING, True)
        _finish(dm1, top, edge + Q, at + 1, outputs, slots, slot_sync, ACT, RING, False)
        _finish(dm2, top + H, edge, at + 2, outputs, slots, slot_sync, ACT, RING, False)
        _finish(dm3, top + H, edge + Q, at + 3, outputs, slots, slot_sync, ACT, RING, False)
        mbarrier.arrive(finishing.index(1 - WHO), count=1)
        tma.store_wait(0)
        mbarrier.arrive(slot_sync[1].index((at + 3) % RING), count=1)
        taken += 1  # noqa: SIM113 (Gluon has no enumerate)


@gluon.jit(do_not_specialize=["m", "h", "d"])
def gradient_pingpong_kernel(
    dy, w, gate, up, d_gate, d_up, m: gl.int32, h: gl.int32, d: gl.int32,
    ACT: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr, RING: gl.constexpr,
):  # fmt: skip
    """All tensors are descriptors; `w` is the down weight (d, h)."""
    gl.static_assert(RING >= 2)  # a slot is free only when the next quarter is done
    dtype: gl.constexpr = dy.dtype
    left = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], dy.layout)
    right = gl.allocate_shared_memory(dtype, [STAGES, BK, BN], w.layout)
    gates = gl.allocate_shared_memory(dtype, [RING, BM // 2, BN // 2], gate.layout)
    ups = gl.allocate_shared_memory(dtype, [RING, BM // 2, BN // 2], up.layout)
    full, empty, turn = barriers(STAGES), barriers(STAGES), barriers(2)
    ready, free, finishing = barriers(RING), barriers(RING), barriers(2)
    fence_async_shared()
    rings, slots = (left, right), (gates, ups)
    sync, slot_sync = (full, empty, turn), (ready, free)
    dims = (gl.cdiv(m, BM), gl.cdiv(h, BN), gl.cdiv(d, BK))
    data = ((d_gate, d_up), rings, slots, sync, slot_sync, finishing, dims)
    gl.warp_specialize([
        (_consume, (data, 0, ACT, BM, BN, GROUP, STAGES, RING)),
        (_consume, (data, 1, ACT, BM, BN, GROUP, STAGES, RING)),
        (_produce, ((dy, w), rings, (full, empty), dims, BM, BN, BK, GROUP, STAGES)),
        (_produce_pre, ((gate, up), slots, slot_sync, dims, BM, BN, GROUP, RING)),
    ], [4, 1, 1], [CONSUMER, PRODUCER, PRODUCER])  # fmt: skip
