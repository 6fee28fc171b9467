# mypy: ignore-errors
"""Gate and up projections in one warp-specialised product: `act(x Wg^T) * (x Wu^T)`, for Hopper.

A tile is BM rows by BN columns of gate and the same BN columns of up, side by side in one
accumulator: each thread holds a gate value and its up value, and the epilogue needs no exchange.
The producer, the turns and the ring of stages are those of `pingpong`. What a tile writes leaves
through shared memory, half its rows at a time where gate and up are kept too: smaller buffers leave
room for a stage more, and rows of 128 bytes fill whole cache lines.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from foretrace.kernels.device.pingpong import (
    CONSUMER,
    PRODUCER,
    activate,
    barriers,
    halves,
    product_in_turn,
    stage_to_fill,
    tile_at,
    tma_load,
    tma_store,
    upper_and_lower,
)


@gluon.jit
def load_gate_up(
    tensors, rings, sync, row, col, begin, steps,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Bring what one tile reads of x and both weights into the ring; `begin` stages came before."""
    x, gate, up = tensors
    left, right = rings
    for k in range(steps):
        stage = stage_to_fill(sync, begin + k, (BM + 2 * BN) * BK * 2, STAGES)
        bar = sync[0].index(stage)
        b = right.index(stage)
        tma_load(x, [row * BM, k * BK], bar, left.index(stage))
        tma_load(gate, [col * BN, k * BK], bar, b.slice(0, BN))
        tma_load(up, [col * BN, k * BK], bar, b.slice(BN, BN))


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
        load_gate_up(tensors, rings, sync, row, col, loaded, steps, BM, BN, BK, STAGES)
        loaded += steps


@gluon.jit
def _store_all(gate, up, row, col, outputs, buffers, FIRST: gl.constexpr, ACT: gl.constexpr):
    """The activation, gate and up through three buffers, the first of them at FIRST."""
    dtype: gl.constexpr = buffers.dtype
    out, g_out, u_out = outputs
    buffers.index(FIRST + 1).store(gate.to(dtype))
    buffers.index(FIRST + 2).store(up.to(dtype))
    buffers.index(FIRST).store((activate(gate, ACT, False) * up).to(dtype))
    fence_async_shared()
    tma_store(out, [row, col], buffers.index(FIRST))
    tma_store(g_out, [row, col], buffers.index(FIRST + 1))
    tma_store(u_out, [row, col], buffers.index(FIRST + 2))


@gluon.jit
def store_gate_up(
    acc, row, col, outputs, buffers,
    ACT: gl.constexpr, SAVE: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, SETS: gl.constexpr,
):  # fmt: skip
    """Write a tile at (row, col); SETS sets of three buffers where gate and up are kept."""
    gate, up = halves(acc, BM, 2 * BN)
    if SAVE:
        gate0, gate1 = upper_and_lower(gate, BM, BN)
        up0, up1 = upper_and_lower(up, BM, BN)
        _store_all(gate0, up0, row, col, outputs, buffers, 0, ACT)
        if SETS == 1:
            tma.store_wait(0)
        _store_all(gate1, up1, row + BM // 2, col, outputs, buffers, 3 * (SETS - 1), ACT)
    else:
        buffers.index(0).store((activate(gate, ACT, False) * up).to(buffers.dtype))
        fence_async_shared()
        tma_store(outputs[0], [row, col], buffers.index(0))
    tma.store_wait(0)


@gluon.jit
def _consume(
    data, WHO: gl.constexpr, ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
    SETS: gl.constexpr,
):  # fmt: skip
    outputs, rings, buffers, sync, writing, dims = data
    tiles_m, tiles_n, steps = dims
    programs = gl.num_programs(0)
    taken = 0
    for tile in range(gl.program_id(0) + WHO * programs, tiles_m * tiles_n, 2 * programs):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        begin = (2 * taken + WHO) * steps
        acc = product_in_turn(rings, sync, begin, steps, taken, WHO, BM, 2 * BN, STAGES, True)
        # Both warpgroups use the same buffers: the stores of one tile end before the next.
        mbarrier.wait(writing.index(WHO), (taken & 1) ^ (1 - WHO))
        store_gate_up(acc, row * BM, col * BN, outputs, buffers, ACT, SAVE, BM, BN, SETS)
        mbarrier.arrive(writing.index(1 - WHO), count=1)
        taken += 1  # noqa: SIM113 (Gluon has no enumerate)


@gluon.jit(do_not_specialize=["m", "h", "d"])
def gate_up_pingpong_kernel(
    x, w_gate, w_up, out, g_out, u_out, m: gl.int32, h: gl.int32, d: gl.int32,
    ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr, SETS: gl.constexpr,
):  # fmt: skip
    """All tensors are descriptors. SAVE also writes gate and up, before the activation."""
    dtype: gl.constexpr = x.dtype
    left = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], x.layout)
    right = gl.allocate_shared_memory(dtype, [STAGES, 2 * BN, BK], w_gate.layout)
    height: gl.constexpr = out.block_type.shape[0]
    count: gl.constexpr = 3 * SETS if SAVE else 1
    buffers = gl.allocate_shared_memory(dtype, [count, height, BN], out.layout)
    full, empty, turn, writing = barriers(STAGES), barriers(STAGES), barriers(2), barriers(2)
    fence_async_shared()
    outputs, rings = (out, g_out, u_out), (left, right)
    dims = (gl.cdiv(m, BM), gl.cdiv(h, BN), gl.cdiv(d, BK))
    loads = (x, w_gate, w_up)
    data = (outputs, rings, buffers, (full, empty, turn), writing, dims)
    gl.warp_specialize([
        (_consume, (data, 0, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_consume, (data, 1, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_produce, (loads, rings, (full, empty), dims, BM, BN, BK, GROUP, STAGES)),
    ], [4, 1], [CONSUMER, PRODUCER])  # fmt: skip
