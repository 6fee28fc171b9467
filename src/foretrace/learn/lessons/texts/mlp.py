"""Lesson 5: the GeGLU MLP, kernel by kernel."""

from foretrace.learn.lessons.texts._mlp import MLP, MLP_CPU
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne

OPS_CPU = LessonStep(
    MLP_CPU,
    HowMany(
        "How many ops of one call of mlp_fwd compute?",
        "cpu kernels == {}",
        {
            "3": "You counted the layers. gelu and mul read and write "
            "memory too, each in an op of its own.",
            "4": "You fused gelu and mul. Eager mode does not: it runs each op as Python "
            "reaches it. A compiler does, in lesson 6.",
        },
    ),
    why="Three matmuls, gelu and mul: {name of cpu kernels}. The other ops of {ops} in all "
    "change metadata, or call these.",
    hint="Views and wrappers compute nothing.",
    show="cpu kernels",
    row="aten::linear",
)
ORDER_CPU = LessonStep(
    MLP_CPU,
    PickOne(
        "In which order do they run?",
        (
            PickChoice(
                "gate, gelu, up, mul, down",
                ("aten::gelu before second aten::mm",),
                "That is what gelu(gate(x)) * up(x) in one expression does: Python evaluates from "
                "left to right. Here gate and up come first.",
            ),
            PickChoice(
                "gate, up, gelu, mul, down",
                ("second aten::mm before aten::gelu", "aten::gelu before aten::mul"),
            ),
        ),
    ),
    why="Ops follow the lines of Python: a CPU computes each before it returns to the program. "
    "On a GPU the launches have this order, and the program runs ahead.",
    hint="Read the two lines as Python does.",
    show="second aten::mm",
    row="aten::linear",
)
ROWS_CPU = LessonStep(
    MLP_CPU,
    HowMany(
        "x is 4 x 32 x 128, and aten::mm takes matrices. How many rows has the left one?",
        "some aten::mm takes {}x128 and 128x512",
        {
            "4": "4 is the batch. The 32 tokens of each sequence are rows as well.",
            "32": "32 rows would be one sequence, and 4 matmuls. One is enough: the weight is the "
            "same for every token.",
        },
    ),
    why="aten::reshape puts all tokens below each other, as a view: {aten::reshape time} for all "
    "three layers. One matmul of all rows replaces one for each sequence.",
    hint="A linear layer treats every token the same way.",
    show="first aten::mm",
    row="aten::reshape",
)
GELU_CPU = LessonStep(
    MLP_CPU,
    PickOne(
        "How much of one call does gelu take?",
        (
            PickChoice(
                "less than 5%",
                ("aten::gelu time < 5% of cpu time",),
                "It computes one tanh for each of 65,536 elements: {aten::gelu time}.",
            ),
            PickChoice(
                "5% to 25%",
                ("aten::gelu time >= 5% of cpu time", "aten::gelu time <= 25% of cpu time"),
                "Compare with the matmuls: gelu takes {aten::gelu time}, they {aten::mm time}.",
            ),
            PickChoice(
                "more than 25%",
                ("aten::gelu time > 25% of cpu time",),
                "The matmuls have far more to do: {aten::mm time}, gelu {aten::gelu time}.",
            ),
        ),
    ),
    why="gelu takes {aten::gelu time} of {cpu time}, mul {aten::mul time}, the matmuls "
    "{aten::mm time}. These times include profiler overhead.",
    hint="There are 128 rows of 512 features, and three matmuls.",
    show="aten::gelu",
    row="aten::gelu",
)

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
                    "3": "You counted the layers. gelu and mul read and "
                    "write memory too, each in a kernel of its own.",
                    "4": "You fused gelu and mul. Eager mode does not: it runs each op as "
                    "Python reaches it. A compiler does, in lesson 6.",
                    "7": "You counted the memsets, which are not kernels: cuBLAS clears a few "
                    "bytes before some matmuls.",
                    "15": "That is the whole recording. The question is about one call.",
                },
            ),
            why="gate, up and down are {gemm} matmuls, gelu and mul {pointwise} pointwise "
            "kernels. The {memset} memsets are no kernels: cuBLAS clears {memset bytes} with them.",
            hint="Every op that computes launches one. Views launch none.",
            show="kernels",
            row="aten::linear",
            cpu=OPS_CPU,
        ),
        LessonStep(
            MLP,
            PickOne(
                "In which order are the kernels launched?",
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
            cpu=ORDER_CPU,
        ),
        LessonStep(
            MLP,
            HowMany(
                "x is 64 x 128 x 768, and aten::mm takes matrices. How many rows has the left one?",
                "some aten::mm takes {}x768 and 768x3072",
                {
                    "64": "64 is the batch. The 128 tokens of each sequence are rows as well.",
                    "128": "128 rows would be one sequence, and 64 matmuls. One is enough: the "
                    "weight is the same for every token.",
                },
            ),
            why="aten::reshape puts all tokens below each other, as a view. One matmul then does "
            "{first gemm flops} in {first gemm time}, far better than many small ones.",
            hint="A linear layer treats every token the same way.",
            show="first gemm",
            row="aten::reshape",
            cpu=ROWS_CPU,
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
                    "40": "That is their share of the kernels. The matmuls take longer each.",
                },
            ),
            why="They take {pointwise time} of {gpu time} to move {pointwise bytes} and do next to "
            "no arithmetic. Two of the five passes over a tensor could be left out.",
            hint="gelu moves two tensors and mul three. The matmuls take {gemm time}.",
            show="pointwise",
            row="aten::mul",
            cpu=GELU_CPU,
        ),
    ),
    read=(
        "foretrace look mlp_eager_64x128x768x3072_bf16: what to do first",
        "foretrace lesson 6: compile it",
    ),
)
