"""Lesson 6: compile it: what changes, what stays, what it costs, and a surprise."""

from foretrace.learn.lessons.texts._mlp import COMPILED_CPU, EAGER
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

NAME = "mlp_compiled_64x128x768x3072_bf16"
COMPILED = Program(
    NAME,
    """\
gate, up = gate_proj(x), up_proj(x)  # now under torch.compile
y = down_proj(F.gelu(gate, approximate="tanh") * up)""",
)
ONE_EXPRESSION = Program(
    "mlp_compiled",
    """y = down_proj(F.gelu(gate_proj(x), approximate="tanh") * up_proj(x))""",
)

LEFT_CPU = LessonStep(
    COMPILED_CPU,
    HowMany(
        "Eager mode runs {A: cpu kernels} ops that compute. How many are left?",
        "cpu kernels == {}",
        {
            "1": "One loop would have to do the matmuls as well. Inductor calls a library for "
            "them.",
            "3": "gelu and mul would have to be inside a matmul, and those are the library's.",
            "5": "gelu and mul are neighbours of the same shape: that is the case that Inductor "
            "fuses, in C++ on a CPU.",
        },
    ),
    why='gelu and mul are one C++ kernel, {name of op "*cpp_fused*"}. The matmuls stay three '
    "calls of aten::mm.",
    hint="Inductor generates pointwise loops, and calls a library for matmuls.",
    show='op "*cpp_fused*"',
    row='{name of op "*cpp_fused*"}',
    against=EAGER,
)
VIEWS_CPU = LessonStep(
    COMPILED_CPU,
    PickOne(
        "An eager call runs {A: ops} ops in all. And a compiled one?",
        (
            PickChoice(
                "less than half of them",
                ("ops < 0.5x of A",),
            ),
            PickChoice(
                "most of them",
                ("ops >= 0.5x of A", "ops < 1x of A"),
                "It runs {ops}. Every view and every wrapper is gone: their shapes are known when "
                "the code is generated.",
            ),
            PickChoice(
                "as many, or more: Dynamo's own rows",
                ("ops >= 1x of A",),
                "It adds rows of its own, such as the cache lookup. It runs {ops}: the views are "
                "gone.",
            ),
        ),
    ),
    why="{ops} instead of {A: ops}: aten::linear, aten::t, aten::reshape and aten::view changed "
    "metadata, and generated code has it as constants. The matmuls are the same.",
    hint="Which ops of aten::linear compute nothing?",
    show="aten::mm",
    row="aten::mm",
    against=EAGER,
)
COST_CPU = LessonStep(
    COMPILED_CPU,
    PickOne(
        "In eager mode gelu takes {A: aten::gelu time} and mul {A: aten::mul time}. Does the "
        "fused loop make a call faster? An eager one takes {A: wall time} without the profiler.",
        (
            PickChoice(
                "yes, by more than 5%",
                ("wall time < 0.95x of A",),
                "Fusing saves a pass over memory. This tensor fits into the caches, and the "
                'generated loop takes {op "*cpp_fused*" time}.',
            ),
            PickChoice(
                "no, within 5%",
                ("wall time >= 0.95x of A", "wall time <= 1.05x of A"),
                'A call takes {wall time}. The fused loop takes {op "*cpp_fused*" time}, and '
                "fewer ops are dispatched.",
            ),
            PickChoice(
                "no, it is slower by more than 5%",
                ("wall time > 1.05x of A",),
                "It can be: a generated loop is not always better vectorized than ATen's. Here a "
                "call takes {wall time}.",
            ),
        ),
    ),
    why='{wall time} against {A: wall time}. The C++ kernel takes {op "*cpp_fused*" time}, gelu '
    "and mul {A: aten::gelu time} and {A: aten::mul time}; compiling took {compile time}. "
    "Measure before you compile for a CPU.",
    hint="A fused loop saves memory traffic. How large is the tensor?",
    show='op "*cpp_fused*"',
    row='{name of op "*cpp_fused*"}',
    against=EAGER,
)

LESSON = Lesson(
    number=6,
    name="compile_it",
    title="Compile it",
    steps=(
        LessonStep(
            COMPILED,
            HowMany(
                "Eager mode launches {A: kernels} kernels. How many are left?",
                "kernels == {}",
                {
                    "1": "One kernel would have to do the matmuls as well. Inductor calls cuBLAS "
                    "for them by default, and can put nothing into those kernels.",
                    "3": "gelu and mul would have to be in the epilogue of a matmul. cuBLAS's "
                    "matmuls are closed to Inductor; max-autotune may do it.",
                    "5": "gelu and mul are neighbours of the same shape: that is the case that "
                    "Inductor fuses.",
                },
            ),
            why="gelu and mul are one kernel, {name of pointwise}. gate, up and down stay "
            "{gemm} kernels of cuBLAS.",
            hint="Inductor generates pointwise kernels, and calls a library for matmuls.",
            show="pointwise",
            row="triton_poi_fused__unsafe_view_gelu_mul_0",
            against=EAGER,
            cpu=LEFT_CPU,
        ),
        LessonStep(
            COMPILED,
            PickOne(
                "What happened to the kernels of gate, up and down?",
                (
                    PickChoice(
                        "the same as eager",
                        ("same gemm kernels as A",),
                    ),
                    PickChoice(
                        "Triton kernels",
                        ("some gemm is triton",),
                        "That needs mode max-autotune, which tries them. By default Inductor "
                        "calls aten::mm as eager mode does.",
                    ),
                    PickChoice(
                        "faster ones of cuBLAS",
                        ("gemm time < 0.9x of A",),
                        "cuBLAS picks by shape, and the shapes are the same as before: so is the "
                        "choice.",
                    ),
                ),
            ),
            why="aten::mm gets the same matrices and cuBLAS picks the same kernels: {gemm time} "
            "together, {A: gemm time} in eager mode. What is gone is on the host: views.",
            hint="Compare what aten::mm is called with.",
            show="gemm",
            row="aten::mm",
            against=EAGER,
            cpu=VIEWS_CPU,
        ),
        LessonStep(
            COMPILED,
            PickOne(
                "Without the profiler an eager call takes {A: wall time}. A compiled one?",
                (
                    PickChoice(
                        "a fifth less, or better",
                        ("wall time <= 0.8x of A",),
                        "The fused kernel takes {pointwise time}, gelu and mul together took "
                        "{A: pointwise time}. No more than that difference is saved on the GPU.",
                    ),
                    PickChoice(
                        "a few percent less",
                        ("wall time > 0.8x of A", "wall time < 1x of A"),
                    ),
                    PickChoice(
                        "more",
                        ("wall time >= 1x of A",),
                        "Guards and wrappers do take host time at every call. But the GPU has work "
                        "queued, and does not wait for the host.",
                    ),
                ),
            ),
            why="A call takes {wall time}, its GPU time goes from {A: gpu time} to {gpu time}. The "
            "profiled host takes {cpu time} against {A: cpu time}; compiling took {compile time}.",
            hint="The GPU is the bottleneck here: how much GPU time can a fused kernel save?",
            show="pointwise",
            row="triton_poi_fused__unsafe_view_gelu_mul_0",
            against=EAGER,
            cpu=COST_CPU,
        ),
        LessonStep(
            ONE_EXPRESSION,
            PickOne(
                "The same MLP in one expression. Inductor's kernel has the same name; above it "
                "took {A: pointwise time}. How long does it take now?",
                (
                    PickChoice(
                        "the same",
                        ("pointwise time > 0.9x of A", "pointwise time < 1.1x of A"),
                        "The name lists the ops, and nothing about how the kernel is launched or "
                        "in which order it reads.",
                    ),
                    PickChoice("a quarter less, or better", ("pointwise time <= 0.75x of A",)),
                    PickChoice(
                        "a quarter more, or worse",
                        ("pointwise time >= 1.25x of A",),
                        "A name does not say; here it is the other way round.",
                    ),
                ),
            ),
            why="It takes {pointwise time}: {grid of pointwise} blocks of {block of pointwise} "
            "threads and {registers of pointwise} registers, against {A: grid of pointwise}, "
            "{A: block of pointwise} and {A: registers of pointwise}. The name does not say so.",
            hint="What does a Triton kernel's name leave out?",
            show="pointwise",
            row="triton_poi_fused__unsafe_view_gelu_mul_0",
            against=NAME,
            cpu="the surprise is how Triton launches the kernel, and a CPU launches none",
        ),
    ),
    read=(
        "foretrace compare mlp_eager mlp_compiled: what changed, kernel by kernel",
        "foretrace docs worth: whether compiling is worth it",
    ),
)
