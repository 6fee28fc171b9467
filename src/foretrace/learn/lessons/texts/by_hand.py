"""Lesson 7: a kernel written by hand: Liger's, and one that changes the program around it."""

from foretrace.learn.lessons.texts._mlp import EAGER
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

INDUCTOR = "mlp_compiled_64x128x768x3072_bf16"
LIGER = Program(
    "mlp_liger_64x128x768x3072_bf16",
    """\
gate, up = gate_proj(x), up_proj(x)  # x: 64 x 128 x 768, bf16
y = down_proj(LigerGELUMulFunction.apply(gate, up))""",
)
OURS = Program(
    "mlp_fused_64x128x768x3072_bf16",
    "y = foretrace.kernels.GeGLUMLP(768, 3072)(x)  # the same formula",
)

TRITON = "Liger's kernel and foretrace's own are written in Triton, which runs on GPUs"

LESSON = Lesson(
    number=7,
    name="by_hand",
    title="A kernel written by hand",
    steps=(
        LessonStep(
            LIGER,
            HowMany(
                "Eager mode launches {A: kernels} kernels. How many with Liger's function?",
                "kernels == {}",
                {
                    "1": "It replaces gelu and mul. The three layers are those of eager mode.",
                    "3": "The matmuls are still followed by a kernel: a function between layers "
                    "cannot enter the kernels of cuBLAS.",
                    "5": "That is eager mode. Liger replaces gelu and mul by one kernel.",
                },
            ),
            why="One Triton kernel, {name of pointwise}, does gelu and mul: {pointwise time} "
            "against {A: pointwise time}. gate, up and down run as before.",
            hint="Which lines of the program became one call?",
            show="pointwise",
            row="LigerGELUMulFunction",
            against=EAGER,
            cpu=TRITON,
        ),
        LessonStep(
            LIGER,
            PickOne(
                "Inductor's kernel for the same two lines takes {A: pointwise time}. Liger's?",
                (
                    PickChoice("a tenth less, or better", ("pointwise time <= 0.9x of A",)),
                    PickChoice(
                        "within a tenth",
                        ("pointwise time > 0.9x of A", "pointwise time < 1.1x of A"),
                        "The article's A100 shows that. On another card, and for another order of "
                        "lines (lesson 6), the ratio is another one.",
                    ),
                    PickChoice(
                        "a tenth more, or worse",
                        ("pointwise time >= 1.1x of A",),
                        "A general kernel need not be slower: this one masks a quarter of its "
                        "lanes at 3072 columns, and still moves the same bytes.",
                    ),
                ),
            ),
            why="{pointwise time} against {A: pointwise time}, and a call takes {wall time} "
            "against {A: wall time} without the profiler. Compare on your card, at your shape.",
            hint="Both read two tensors and write one.",
            show="pointwise",
            row="LigerGELUMulFunction",
            against=INDUCTOR,
            cpu=TRITON,
        ),
        LessonStep(
            LIGER,
            PickOne(
                "Which call launches Liger's kernel?",
                (
                    PickChoice(
                        "cudaLaunchKernel",
                        ("every pointwise is launched by cudaLaunchKernel",),
                        "That is how ATen launches, through the runtime. Triton loads its binaries "
                        "itself and launches through the driver.",
                    ),
                    PickChoice(
                        "a call of the driver",
                        ("every pointwise is launched by cuLaunchKernel*",),
                    ),
                    PickChoice(
                        "a graph launch",
                        ("every pointwise is launched by cudaGraphLaunch",),
                        "Nothing is captured here: each kernel is launched by itself.",
                    ),
                ),
            ),
            why="Triton calls {call of pointwise}. The Python around it takes "
            '{op "LigerGELUMulFunction" time} of profiled host time, all {aten::linear} calls of '
            "aten::linear {aten::linear time}.",
            hint="Triton is not part of the CUDA runtime.",
            show="pointwise",
            row="LigerGELUMulFunction",
            cpu=TRITON,
        ),
        LessonStep(
            OURS,
            HowMany(
                "foretrace's GeGLUMLP keeps gate and up in one weight. How many kernels are left?",
                "kernels == {}",
                {
                    "4": "gate and up are one matmul now: the same input, and twice the columns.",
                    "2": "With gelu and mul in the epilogue of the first matmul it would be two. "
                    "That matmul is cuBLAS's, and closed.",
                    "1": "The down projection needs all hidden features of a row: it waits for the "
                    "kernels before it.",
                },
            ),
            why="gate and up are one matmul ({first gemm time}) before gelu with mul, and down: "
            "{kernels} kernels. A call takes {wall time}, an eager one {A: wall time}.",
            hint="Two layers with the same input are one layer with more columns.",
            show="first gemm",
            row="aten::mm",
            against=EAGER,
            cpu=TRITON,
        ),
    ),
    read=(
        "foretrace docs kernels: foretrace's own kernels",
        "foretrace lesson 8: attention",
    ),
)
