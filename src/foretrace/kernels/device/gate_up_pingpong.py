# mypy: ignore-errors
# ruff: noqa: RET505 (a branch on a constexpr is chosen at compile time only when it is an else)
"""Gate and up projections in one warp-specialised matmul: `act(x Wg^T) * (x Wu^T)`, for Hopper.

A tile is BM rows by BN columns of gate and the same BN columns of up, side by side in one
accumulator: each thread holds a gate value and its up value, and the epilogue needs no exchange.
The producer, the turns and the ring of stages are those of `pingpong`. What a tile writes leaves
through shared memory, half its rows at a time where more than activations is kept: smaller buffers
leave room for a stage more, and rows of 128 bytes fill whole cache lines.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from foretrace.kernels.device.pingpong import (
    CONSUMER,
    PRODUCER,
    activate,
    barriers,
    factors,
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
def _kept(gate, up, ACT: gl.constexpr, SAVE: gl.constexpr, dtype: gl.constexpr):
    """The activation times up, and the two tensors to keep."""
    if SAVE == "factors":
        left, right = factors(gate, up, ACT, False)
        return (right * up).to(dtype), left.to(dtype), right.to(dtype)
    else:
        return (activate(gate, ACT, False) * up).to(dtype), gate.to(dtype), up.to(dtype)


@gluon.jit
def _store_kept(kept, row, col, outputs, buffers, FIRST: gl.constexpr):
    """Three tensors of half the rows, through three buffers from FIRST on."""
    for i in gl.static_range(3):
        buffers.index(FIRST + i).store(kept[i])
    fence_async_shared()
    for i in gl.static_range(3):
        tma_store(outputs[i], [row, col], buffers.index(FIRST + i))


@gluon.jit
def store_gate_up(
    acc, row, col, outputs, buffers, writing, taken,
    WHO: gl.constexpr, ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, SETS: gl.constexpr,
):  # fmt: skip
    """Write consumer WHO's next tile, after `taken` tiles of its own, at (row, col).

    Both consumers use the same buffers: the stores of one tile end before the next. With SAVE there
    are SETS sets of three, and one half of the rows is computed while the other leaves.
    """
    dtype: gl.constexpr = buffers.dtype
    gate, up = halves(acc, BM, 2 * BN)
    if SAVE == "":
        out = (activate(gate, ACT, False) * up).to(dtype)
        mbarrier.wait(writing.index(WHO), (taken & 1) ^ (1 - WHO))
        buffers.index(0).store(out)
        fence_async_shared()
        tma_store(outputs[0], [row, col], buffers.index(0))
    else:
        gate0, gate1 = upper_and_lower(gate, BM, BN)
        up0, up1 = upper_and_lower(up, BM, BN)
        upper = _kept(gate0, up0, ACT, SAVE, dtype)
        mbarrier.wait(writing.index(WHO), (taken & 1) ^ (1 - WHO))
        _store_kept(upper, row, col, outputs, buffers, 0)
        lower = _kept(gate1, up1, ACT, SAVE, dtype)
        if SETS == 1:
            tma.store_wait(0)
        _store_kept(lower, row + BM // 2, col, outputs, buffers, 3 * (SETS - 1))
    tma.store_wait(0)
    mbarrier.arrive(writing.index(1 - WHO), count=1)


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
        store_gate_up(
            acc, row * BM, col * BN, outputs, buffers, writing, taken,
            WHO, ACT, SAVE, BM, BN, SETS,
        )  # fmt: skip
        taken += 1  # noqa: SIM113 (Gluon has no enumerate)


@gluon.jit(do_not_specialize=["m", "h", "d"])
def gate_up_pingpong_kernel(
    x, w_gate, w_up, out, left_out, right_out, m: gl.int32, h: gl.int32, d: gl.int32,
    ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr, SETS: gl.constexpr,
):  # fmt: skip
    """All tensors are descriptors. SAVE "products" also writes gate and up, before the activation;
    "factors" their `math.factors`, which leave the backward pass two multiplications.
    """
    dtype: gl.constexpr = x.dtype
    left = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], x.layout)
    right = gl.allocate_shared_memory(dtype, [STAGES, 2 * BN, BK], w_gate.layout)
    height: gl.constexpr = out.block_type.shape[0]
    count: gl.constexpr = 3 * SETS if SAVE != "" else 1
    buffers = gl.allocate_shared_memory(dtype, [count, height, BN], out.layout)
    full, empty, turn, writing = barriers(STAGES), barriers(STAGES), barriers(2), barriers(2)
    fence_async_shared()
    outputs, rings = (out, left_out, right_out), (left, right)
    dims = (gl.cdiv(m, BM), gl.cdiv(h, BN), gl.cdiv(d, BK))
    loads = (x, w_gate, w_up)
    data = (outputs, rings, buffers, (full, empty, turn), writing, dims)
    gl.warp_specialize([
        (_consume, (data, 0, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_consume, (data, 1, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_produce, (loads, rings, (full, empty), dims, BM, BN, BK, GROUP, STAGES)),
    ], [4, 1], [CONSUMER, PRODUCER])  # fmt: skip
