# mypy: ignore-errors
# ruff: noqa: RET505 (a branch on a constexpr is chosen at compile time only when it is an else)
"""The warp-specialised matmuls of a gated MLP, for Hopper.

One warp, the producer, fills a ring of shared-memory stages through TMA. Two warpgroups, the
consumers, take tiles in turn: while one multiplies, the other runs its epilogue, so that the tensor
cores do not wait for an activation or for a store. Consumers pass the turn through a barrier.

Written in Gluon, which has no interpreter: these kernels are compiled ahead of time in the tests
and run on a GPU. Their results equal those of the Triton kernels in `matmuls`.

`gate_up_pingpong_kernel` is gate and up projections in one matmul: `act(x Wg^T) * (x Wu^T)`.
A tile is BM rows by BN columns of gate and the same BN columns of up, side by side in one
accumulator: each thread holds a gate value and its up value, and the epilogue needs no exchange.
What a tile writes leaves
through shared memory, half its rows at a time where more than activations is kept: smaller buffers
leave room for a stage more, and rows of 128 bytes fill whole cache lines.

`gradient_pingpong_kernel` has the activation's gradient in the epilogue of `dm = dy Wd`.
A second producer warp brings the gate and up values of a tile, or their `math.factors`, a quarter
of the tile at a time, into a ring of their own, far ahead of the epilogue that needs them. The
epilogue writes the two gradients over them in shared memory, and TMA stores them from there: they
need no further memory.

`whole_pingpong_kernel` is the whole forward pass in one launch: gate and up, then down.
Two launches leave the GPU half idle twice: while the last tiles of the first end, and while the
second starts. Here a program goes on with tiles of the down projection as soon as it has no gate
tile left. A count for each block of rows says how many of its activations are in memory; a third
kind of warp watches the counts, so that the producer never waits for global memory.

Programs with a down tile less take more gate tiles (`dealt`), and all of them end together. A
program waits for tiles of others, so all programs must be on the GPU at once: the launch is a
cooperative one, which fails where they cannot be.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from foretrace.kernels.device import math, matmuls

# Registers per thread: as the kernel starts, of a consumer, of a producer.
REGISTERS, CONSUMER, PRODUCER = 168, gl.constexpr(240), gl.constexpr(24)


# Copies between global and shared memory, and the barrier of a group of warps, under their names in
# Triton 3.6 and in later versions.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
all_threads = getattr(gl, "thread_barrier", None) or gl.barrier


@gluon.jit
def barriers(COUNT: gl.constexpr):
    """COUNT barriers in shared memory; one arrival completes a phase."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(made.index(i), count=1)
    return made


@gluon.jit
def multiply(left, right, full, empty, begin, steps, acc, STAGES: gl.constexpr, T: gl.constexpr):
    """The matmul over `steps` stages of the ring, the first at `begin`; T transposes the right.

    The last stage is given back to the producer one step later, when its matmul is done.
    """
    stage = begin % STAGES
    mbarrier.wait(full.index(stage), (begin // STAGES) & 1)
    b = right.index(stage).permute((1, 0)) if T else right.index(stage)
    acc = warpgroup_mma(left.index(stage), b, acc, use_acc=False, is_async=True)
    acc = warpgroup_mma_wait(num_outstanding=1, deps=[acc])
    for step in range(begin + 1, begin + steps):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), (step // STAGES) & 1)
        b = right.index(stage).permute((1, 0)) if T else right.index(stage)
        acc = warpgroup_mma(left.index(stage), b, acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1, deps=[acc])
        mbarrier.arrive(empty.index((step - 1) % STAGES), count=1)
    return acc


@gluon.jit
def stage_to_fill(sync, step, BYTES: gl.constexpr, STAGES: gl.constexpr):
    """The stage of the ring for a step, once it is empty; its barrier then waits for BYTES."""
    full, empty = sync
    stage = step % STAGES
    mbarrier.wait(empty.index(stage), ((step // STAGES) & 1) ^ 1)
    mbarrier.expect(full.index(stage), BYTES)
    return stage


@gluon.jit
def load_product(
    tensors, rings, sync, row, col, begin, steps,
    BM: gl.constexpr, COLUMNS: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr,
    T: gl.constexpr,
):  # fmt: skip
    """Bring what one tile reads of two tensors into the ring; `begin` stages came before."""
    a, b = tensors
    left, right = rings
    for k in range(steps):
        stage = stage_to_fill(sync, begin + k, (BM + COLUMNS) * BK * 2, STAGES)
        bar = sync[0].index(stage)
        tma_load(a, [row * BM, k * BK], bar, left.index(stage))
        if T:
            tma_load(b, [col * COLUMNS, k * BK], bar, right.index(stage))
        else:
            tma_load(b, [k * BK, col * COLUMNS], bar, right.index(stage))


@gluon.jit
def product_in_turn(
    rings, sync, begin, steps, taken,
    WHO: gl.constexpr, BM: gl.constexpr, COLUMNS: gl.constexpr, STAGES: gl.constexpr,
    T: gl.constexpr,
):  # fmt: skip
    """The matmul of consumer WHO's next tile, after `taken` tiles of its own.

    It waits for its turn, and passes the turn on before its last step is done.
    """
    left, right = rings
    full, empty, turn = sync
    mma: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, COLUMNS, 16]
    )
    mbarrier.wait(turn.index(WHO), (taken & 1) ^ (1 - WHO))
    acc = gl.zeros([BM, COLUMNS], gl.float32, mma)
    acc = multiply(left, right, full, empty, begin, steps, acc, STAGES, T)
    mbarrier.arrive(turn.index(1 - WHO), count=1)
    acc = warpgroup_mma_wait(num_outstanding=0, deps=[acc])
    mbarrier.arrive(empty.index((begin + steps - 1) % STAGES), count=1)
    return acc


@gluon.jit
def halves(acc, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """The left and the right half of a block's columns; each thread keeps its own values."""
    return acc.reshape((ROWS, 2, COLUMNS // 2)).permute((0, 2, 1)).split()


@gluon.jit
def upper_and_lower(acc, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """The upper and the lower half of a block's rows; each thread keeps its own values."""
    return acc.reshape((2, ROWS // 2, COLUMNS)).permute((1, 2, 0)).split()


tile_at = gluon.jit(matmuls.tile_at.fn)
activate = gluon.jit(math.activate.fn)
factors = gluon.jit(math.factors.fn)
gradients = gluon.jit(math.gradients.fn)


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
def _produce_gate_up(
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
def _consume_gate_up(
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
        (_consume_gate_up, (data, 0, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_consume_gate_up, (data, 1, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_produce_gate_up, (loads, rings, (full, empty), dims, BM, BN, BK, GROUP, STAGES)),
    ], [4, 1], [CONSUMER, PRODUCER])  # fmt: skip


@gluon.jit
def _produce_gradient(
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
def _consume_gradient(
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
        (_consume_gradient, (data, 0, ACT, BM, BN, GROUP, STAGES, RING)),
        (_consume_gradient, (data, 1, ACT, BM, BN, GROUP, STAGES, RING)),
        (_produce_gradient, ((dy, w), rings, (full, empty), dims, BM, BN, BK, GROUP, STAGES)),
        (_produce_pre, ((gate, up), slots, slot_sync, dims, BM, BN, GROUP, RING)),
    ], [4, 1, 1], [CONSUMER, PRODUCER, PRODUCER])  # fmt: skip


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
def _produce_whole(
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
def _consume_whole(
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
        (_consume_whole, (data, 0, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_consume_whole, (data, 1, ACT, SAVE, BM, BN, GROUP, STAGES, SETS)),
        (_produce_whole, (loads, rings, (full, empty), go, dims, BM, BN, BK, GROUP, STAGES)),
        (_watch, (go, (counts, counts + tiles_m), dims, GROUP)),
    ], [4, 1, 1], [CONSUMER, PRODUCER, PRODUCER])  # fmt: skip
