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

from foretrace.kernels.device import math

# Registers per thread: as the kernel starts, of a consumer, of a producer.
REGISTERS, CONSUMER, PRODUCER = 168, gl.constexpr(240), gl.constexpr(24)


# Copies between global and shared memory, under their names in Triton 3.6 and in later versions.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def tile_at(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Row and column of a tile, in stripes of GROUP rows: a stripe's weights stay in L2."""
    per_stripe = GROUP * tiles_n
    first = (tile // per_stripe) * GROUP
    height = gl.minimum(tiles_m - first, GROUP)
    inside = tile % per_stripe
    return first + inside % height, inside // height


@gluon.jit
def barriers(COUNT: gl.constexpr):
    """COUNT barriers in shared memory; one arrival completes a phase."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(made.index(i), count=1)
    return made


@gluon.jit
def multiply(left, right, full, empty, begin, steps, acc, STAGES: gl.constexpr, T: gl.constexpr):
    """The product over `steps` stages of the ring, the first at `begin`; T transposes the right.

    The last stage is given back to the producer one step later, when its product is done.
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
def halves(acc, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """The left and the right half of a block's columns; each thread keeps its own values."""
    return acc.reshape((ROWS, 2, COLUMNS // 2)).permute((0, 2, 1)).split()


activate = gluon.jit(math.activate.fn)
activate_with_slope = gluon.jit(math.activate_with_slope.fn)
