# mypy: ignore-errors
"""What the warp-specialised kernels for Hopper share: the loop over tiles, and who does what in it.

One warp, the producer, fills a ring of shared-memory stages through TMA. Two warpgroups, the
consumers, take tiles in turn: while one multiplies, the other runs its epilogue, so that the tensor
cores do not wait for an activation or for a store. Consumers pass the turn through a barrier.

Written in Gluon, which has no interpreter: these kernels are compiled ahead of time in the tests
and run on a GPU. Their results equal those of the Triton kernels in `projection` and `gradient`.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from foretrace.kernels.device import math, projection

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


tile_at = gluon.jit(projection.tile_at.fn)
activate = gluon.jit(math.activate.fn)
factors = gluon.jit(math.factors.fn)
gradients = gluon.jit(math.gradients.fn)
