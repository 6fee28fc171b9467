# mypy: ignore-errors
"""The whole forward pass in one warp-specialised launch, for Hopper: gate and up, then down.

Two launches leave the GPU half idle twice: while the last tiles of the first end, and while the
second starts. Here a program goes on with tiles of the down projection as soon as it has no gate
tile left. A count for each block of rows says how many of its activations are in memory; a third
kind of warp watches the counts, so that the producer of `pingpong` never waits for global memory.

Programs with a down tile less take more gate tiles (`dealt`), and all of them end together. A
program waits for tiles of others, so all programs must be on the GPU at once: the launch is a
cooperative one, which fails where they cannot be.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from foretrace.kernels.device.gate_up_pingpong import load_gate_up, store_gate_up
from foretrace.kernels.device.pingpong import (
    CONSUMER,
    PRODUCER,
    all_threads,
    barriers,
    halves,
    load_product,
    product_in_turn,
    tile_at,
    tma_store,
    upper_and_lower,
)


@gluon.jit
def dealt(me, programs, dims):
    """What program `me` of `programs` takes: gate tiles, how many of them are dealt evenly, and
    down tiles; then how many gate tiles in all are dealt evenly, and the first program that takes a
    down tile less than others. Those programs share the rest of the gate tiles, so that all end
    together.
    """
    tiles_m, tiles_h, tiles_d, gate_steps, down_steps = dims
    gates = tiles_m * tiles_h
    downs = tiles_m * tiles_d
    first = downs % programs
    extra = min((down_steps + gate_steps // 2) // gate_steps * (programs - first), gates)
    even = gates - extra
    mine = (max(even - me, 0) + programs - 1) // programs
    more = 0
    if me >= first:
        more = (max(extra - (me - first), 0) + programs - first - 1) // (programs - first)
    return mine + more, mine, (max(downs - me, 0) + programs - 1) // programs, even, first


@gluon.jit
def gate_tile(number, me, programs, mine, even, first):
    """The `number`-th gate tile of program `me`, for what was `dealt`."""
    tile = number * programs + me
    if number >= mine:
        tile = even + (number - mine) * (programs - first) + me - first
    return tile


@gluon.jit
def _instruction(TEXT: gl.constexpr):
    """Run one instruction that has no operand."""
    gl.inline_asm_elementwise(
        TEXT + "; mov.u32 $0, $1;", "=r,r", [0], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _seen(at):
    """The value at `at`, and with it all that was written before it."""
    return gl.inline_asm_elementwise(
        "ld.acquire.gpu.global.s32 $0, [$1];", "=r,l", [at],
        dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _watch(go, counts, dims, GROUP: gl.constexpr):
    """Tells the producer when all that a down tile reads is in memory.

    The last reader of a block of rows sets its counts back to zero, for the next launch.
    """
    written, read = counts
    tiles_m, tiles_h, tiles_d, _, _ = dims
    me, programs = gl.program_id(0), gl.num_programs(0)
    for tile in range(me, tiles_m * tiles_d, programs):
        row, _ = tile_at(tile, tiles_m, tiles_d, GROUP)
        while _seen(written + row) < tiles_h:
            pass
        # The rows were written by TMA and will be read by TMA, on another multiprocessor.
        _instruction("fence.proxy.async")
        turn = tile // programs & 1
        mbarrier.wait(go.index(1), turn ^ 1)
        mbarrier.arrive(go.index(0), count=1)
        if gl.atomic_add(read + row, 1, sem="relaxed") == tiles_d - 1:
            gl.store(written + row, 0)
            gl.store(read + row, 0)


@gluon.jit
def _produce(
    tensors, rings, sync, go, dims,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    x, w_gate, w_up, middle, w_down = tensors
    tiles_m, tiles_h, tiles_d, gate_steps, down_steps = dims
    me, programs = gl.program_id(0), gl.num_programs(0)
    gates, mine, downs, even, first = dealt(me, programs, dims)
    loaded = 0
    for i in range(gates):
        tile = gate_tile(i, me, programs, mine, even, first)
        row, col = tile_at(tile, tiles_m, tiles_h, GROUP)
        both = (x, w_gate, w_up)
        load_gate_up(both, rings, sync, row, col, loaded, gate_steps, BM, BN, BK, STAGES)
        loaded += gate_steps
    for j in range(downs):
        row, col = tile_at(j * programs + me, tiles_m, tiles_d, GROUP)
        mbarrier.wait(go.index(0), j & 1)
        mbarrier.arrive(go.index(1), count=1)
        read = (middle, w_down)
        load_product(read, rings, sync, row, col, loaded, down_steps, BM, 2 * BN, BK, STAGES, True)
        loaded += down_steps


@gluon.jit
def _store_down(acc, row, col, y, buffers, SAVE: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr):
    """Write a tile of BM rows by 2 BN columns, in as many pieces as there are buffers for."""
    if SAVE != "":
        upper, lower = upper_and_lower(acc, BM, 2 * BN)
        _store_pair(upper, row, col, y, buffers, BM // 2, BN)
        _store_pair(lower, row + BM // 2, col, y, buffers, BM // 2, BN)
    else:
        a, b = halves(acc, BM, 2 * BN)
        _store_piece(a, row, col, y, buffers.index(0))
        tma.store_wait(0)
        _store_piece(b, row, col + BN, y, buffers.index(0))
        tma.store_wait(0)


@gluon.jit
def _store_pair(block, row, col, y, buffers, ROWS: gl.constexpr, BN: gl.constexpr):
    a, b = halves(block, ROWS, 2 * BN)
    _store_piece(a, row, col, y, buffers.index(0))
    _store_piece(b, row, col + BN, y, buffers.index(1))
    tma.store_wait(0)


@gluon.jit
def _store_piece(piece, row, col, y, buffer):
    buffer.store(piece.to(buffer.dtype))
    fence_async_shared()
    tma_store(y, [row, col], buffer)


@gluon.jit
def _count(written, row):
    """Counts a tile of a block of rows; none if `row` is negative.

    It waits until the tile is in memory: after the next matmul, so that no matmul waits for it.
    """
    if row >= 0:
        _instruction("cp.async.bulk.wait_group 0")
        all_threads()
        gl.atomic_add(written + row, 1, sem="release")


@gluon.jit
def _consume(
    data, WHO: gl.constexpr, ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, GROUP: gl.constexpr, STAGES: gl.constexpr,
    SETS: gl.constexpr,
):  # fmt: skip
    outputs, y, rings, buffers, sync, writing, written, dims = data
    tiles_m, tiles_h, tiles_d, gate_steps, down_steps = dims
    me, programs = gl.program_id(0), gl.num_programs(0)
    gates, mine, downs, even, first = dealt(me, programs, dims)
    last = -1
    for i in range(WHO, gates, 2):
        tile = gate_tile(i, me, programs, mine, even, first)
        row, col = tile_at(tile, tiles_m, tiles_h, GROUP)
        taken = i // 2
        acc = product_in_turn(
            rings, sync, i * gate_steps, gate_steps, taken, WHO, BM, 2 * BN, STAGES, True
        )
        _count(written, last)
        store_gate_up(
            acc, row * BM, col * BN, outputs, buffers, writing, taken,
            WHO, ACT, SAVE, BM, BN, SETS,
        )  # fmt: skip
        last = row
    _count(written, last)
    before = gates * gate_steps
    for j in range((gates ^ WHO) & 1, downs, 2):
        row, col = tile_at(j * programs + me, tiles_m, tiles_d, GROUP)
        taken = (gates + j) // 2
        begin = before + j * down_steps
        acc = product_in_turn(rings, sync, begin, down_steps, taken, WHO, BM, 2 * BN, STAGES, True)
        mbarrier.wait(writing.index(WHO), (taken & 1) ^ (1 - WHO))
        _store_down(acc, row * BM, col * 2 * BN, y, buffers, SAVE, BM, BN)
        mbarrier.arrive(writing.index(1 - WHO), count=1)


@gluon.jit(do_not_specialize=["m", "h", "d"])
def whole_pingpong_kernel(
    x, w_gate, w_up, middle, w_down, out, left_out, right_out, y, counts,
    m: gl.int32, h: gl.int32, d: gl.int32,
    ACT: gl.constexpr, SAVE: gl.constexpr,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    GROUP: gl.constexpr, STAGES: gl.constexpr, SETS: gl.constexpr,
):  # fmt: skip
    """All tensors but `counts` are descriptors; `middle` reads what `out` writes.

    `counts` has two zeros for each block of rows. SAVE is that of `gate_up_pingpong_kernel`.
    """
    dtype: gl.constexpr = x.dtype
    left = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], x.layout)
    right = gl.allocate_shared_memory(dtype, [STAGES, 2 * BN, BK], w_gate.layout)
    height: gl.constexpr = out.block_type.shape[0]
    count: gl.constexpr = 3 * SETS if SAVE != "" else 1
    buffers = gl.allocate_shared_memory(dtype, [count, height, BN], out.layout)
    full, empty, turn = barriers(STAGES), barriers(STAGES), barriers(2)
    writing, go = barriers(2), barriers(2)
    fence_async_shared()
    tiles_m = gl.cdiv(m, BM)
    dims = (tiles_m, gl.cdiv(h, BN), gl.cdiv(d, 2 * BN), gl.cdiv(d, BK), gl.cdiv(h, BK))
    outputs, rings = (out, left_out, right_out), (left, right)
    loads = (x, w_gate, w_up, middle, w_down)
    data = (outputs, y, rings, buffers, (full, empty, turn), writing, counts, dims)
    gl.warp_specialize([
        (_consume, (data, 0, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_consume, (data, 1, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_produce, (loads, rings, (full, empty), go, dims, BM, BN, BK, GROUP, STAGES)),
        (_watch, (go, (counts, counts + tiles_m), dims, GROUP)),
    ], [4, 1, 1], [CONSUMER, PRODUCER, PRODUCER])  # fmt: skip
