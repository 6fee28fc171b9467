"""Lesson 5: the GeGLU MLP, kernel by kernel."""

from foretrace.lessons.texts._mlp import MLP
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne

LESSON = Lesson(
    number=5,
    name="mlp",
    title="The GeGLU MLP",
    steps=(
        LessonStep(
            MLP,
            HowMany(
                "How many kernels does one call of mlp_fwd launch?",
                "kernels == {}",
                {
                    "3": "You counted the layers. gelu and the product of gate and up read and "
                    "write memory too, each in a kernel of its own.",
                    "4": "You fused gelu and the product. Eager mode does not: it runs each op as "
                    "Python reaches it. A compiler does, in lesson 6.",
                    "7": "You counted the memsets, which are not kernels: cuBLAS clears a few "
                    "bytes before some products.",
                    "15": "That is the whole recording, three calls.",
                },
            ),
            why="Three products and two pointwise kernels. The GPU also ran {memset} memsets, "
            "{memset bytes} in all: cuBLAS clears them before some products.",
            hint="Every op that computes launches one. Views launch none.",
            show="kernels",
            row="aten::linear",
        ),
        LessonStep(
            MLP,
            PickOne(
                "In which order are they launched?",
                (
                    PickChoice(
                        "gate, gelu, up, mul, down",
                        ("gate, gelu, up, mul, down",),
                        "That is what gelu(gate(x)) * up(x) in one expression does: Python "
                        "evaluates from left to right. Here gate and up come first.",
                    ),
                    PickChoice("gate, up, gelu, mul, down", ("gate, up, gelu, mul, down",)),
                    PickChoice(
                        "gate and up at the same time, then the others",
                        ("kernels overlap",),
                        "One stream runs its kernels one after the other, even where they do not "
                        "depend on each other.",
                    ),
                ),
            ),
            why="Launches follow the lines of Python, and one stream keeps their order. Lesson "
            "6 shows that the other order compiles to a kernel with another time.",
            hint="Read the two lines as Python does.",
            show="second gemm",
            row="aten::linear",
        ),
        LessonStep(
            MLP,
            HowMany(
                "x is 64 x 128 x 768, and aten::mm takes matrices. How many rows has the left one?",
                "some aten::mm takes {}x768 and 768x3072",
                {
                    "64": "64 is the batch. The 128 tokens of each sequence are rows as well.",
                    "128": "128 rows would be one sequence, and 64 products. One is enough: the "
                    "weight is the same for every token.",
                },
            ),
            why="aten::reshape puts all tokens below each other, as a view. One product then does "
            "{first gemm flops} in {first gemm time}, far better than many small ones.",
            hint="A linear layer treats every token the same way.",
            show="first gemm",
            row="aten::reshape",
        ),
        LessonStep(
            MLP,
            HowMany(
                "How many percent of the GPU time do gelu and mul take? (25% off still counts)",
                "pointwise time == {}% +- 25%",
                {
                    "1": "By FLOPs they are almost nothing. They take as long as it takes to read "
                    "and write their tensors.",
                    "5": "By FLOPs they are almost nothing. They take as long as it takes to read "
                    "and write their tensors.",
                    "40": "That is their share of the kernels. The products take longer each.",
                },
            ),
            why="They take {pointwise time} of {gpu time} to move {pointwise bytes} and do next to "
            "no arithmetic. Two of the five passes over a tensor could be left out.",
            hint="gelu moves two tensors and mul three. The products take {gemm time}.",
            show="pointwise",
            row="aten::mul",
        ),
    ),
    read=(
        "foretrace look mlp_eager_64x128x768x3072_bf16: what to do first",
        "foretrace lesson 6: compile it",
    ),
)
