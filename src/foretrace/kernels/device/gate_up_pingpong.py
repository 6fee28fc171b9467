# mypy: ignore-errors
"""Gate and up projections in one warp-specialised product: `act(x Wg^T) * (x Wu^T)`, for Hopper.

A tile is BM rows by BN columns of gate and the same BN columns of up, side by side in one
accumulator: each thread holds a gate value and its up value, and the epilogue needs no exchange.
The producer, the turns and the ring of stages are those of `pingpong`. What a tile writes leaves
through shared memory, half a tile at a time where gate and up are kept too: smaller buffers leave
room for a stage more.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)

from foretrace.kernels.device.pingpong import (
    CONSUMER,
    PRODUCER,
    activate,
    barriers,
    halves,
    multiply,
    tile_at,
    tma_load,
    tma_store,
)


@gluon.jit
def _produce(
    tensors, rings, sync, dims,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    x, gate, up = tensors
    left, right = rings
    full, empty = sync
    tiles_m, tiles_n, steps = dims
    loaded = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        for k in range(steps):
            stage = loaded % STAGES
            mbarrier.wait(empty.index(stage), ((loaded // STAGES) & 1) ^ 1)
            bar = full.index(stage)
            mbarrier.expect(bar, (BM + 2 * BN) * BK * 2)
            b = right.index(stage)
            tma_load(x, [row * BM, k * BK], bar, left.index(stage))
            tma_load(gate, [col * BN, k * BK], bar, b.slice(0, BN))
            tma_load(up, [col * BN, k * BK], bar, b.slice(BN, BN))
            loaded += 1


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
def _consume(
    data, WHO: gl.constexpr, ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
    SETS: gl.constexpr,
):  # fmt: skip
    outputs, rings, buffers, sync, dims = data
    left, right = rings
    full, empty, turn, writing = sync
    tiles_m, tiles_n, steps = dims
    mma: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 2 * BN, 16]
    )
    programs = gl.num_programs(0)
    done = 0
    for tile in range(gl.program_id(0) + WHO * programs, tiles_m * tiles_n, 2 * programs):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        begin = (2 * done + WHO) * steps
        mbarrier.wait(turn.index(WHO), (done & 1) ^ (1 - WHO))
        acc = gl.zeros([BM, 2 * BN], gl.float32, mma)
        acc = multiply(left, right, full, empty, begin, steps, acc, STAGES, True)
        mbarrier.arrive(turn.index(1 - WHO), count=1)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=[acc])
        mbarrier.arrive(empty.index((begin + steps - 1) % STAGES), count=1)
        gate, up = halves(acc, BM, 2 * BN)
        # Both warpgroups use the same buffers: the stores of one tile end before the next.
        mbarrier.wait(writing.index(WHO), (done & 1) ^ (1 - WHO))
        if SAVE:
            gate0, gate1 = halves(gate, BM, BN)
            up0, up1 = halves(up, BM, BN)
            top, edge = row * BM, col * BN
            _store_all(gate0, up0, top, edge, outputs, buffers, 0, ACT)
            if SETS == 1:
                tma.store_wait(0)
            _store_all(gate1, up1, top, edge + BN // 2, outputs, buffers, 3 * (SETS - 1), ACT)
        else:
            buffers.index(0).store((activate(gate, ACT, False) * up).to(buffers.dtype))
            fence_async_shared()
            tma_store(outputs[0], [row * BM, col * BN], buffers.index(0))
        tma.store_wait(0)
        mbarrier.arrive(writing.index(1 - WHO), count=1)
        done += 1  # noqa: SIM113 (Gluon has no enumerate)


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
    width: gl.constexpr = out.block_type.shape[1]
    count: gl.constexpr = 3 * SETS if SAVE else 1
    buffers = gl.allocate_shared_memory(dtype, [count, BM, width], out.layout)
    full, empty, turn, writing = barriers(STAGES), barriers(STAGES), barriers(2), barriers(2)
    fence_async_shared()
    outputs, rings = (out, g_out, u_out), (left, right)
    sync = (full, empty, turn, writing)
    dims = (gl.cdiv(m, BM), gl.cdiv(h, BN), gl.cdiv(d, BK))
    loads = (x, w_gate, w_up)
    data = (outputs, rings, buffers, sync, dims)
    gl.warp_specialize([
        (_consume, (data, 0, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_consume, (data, 1, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_produce, (loads, rings, (full, empty), dims, BM, BN, BK, GROUP, STAGES)),
    ], [4, 1], [CONSUMER, PRODUCER])  # fmt: skip
