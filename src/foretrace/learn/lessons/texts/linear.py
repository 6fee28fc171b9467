"""Lesson 2: what nn.Linear dispatches: views, strides, addmm, and the bias in the epilogue."""

from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

FLAT = Program(
    "linear_eager_1024x32x64_bf16",
    """\
layer = torch.nn.Linear(32, 64, dtype=torch.bfloat16, device="cuda")
x = torch.randn(1024, 32, dtype=torch.bfloat16, device="cuda")
with record_function("linear_fwd"):
    y = layer(x)  # x @ weight.t() + bias; weight is 64 x 32""",
)
DEEP = Program(
    "linear_eager_8x32x64x128_bf16",
    "the same layer, but x is 8 x 128 x 32",
)

FLAT_CPU = Program(
    FLAT.recording,
    """\
layer = torch.nn.Linear(32, 64)
x = torch.randn(1024, 32)
with record_function("linear_fwd"):
    y = layer(x)  # x @ weight.t() + bias; weight is 64 x 32""",
)
BIAS_CPU = LessonStep(
    FLAT_CPU,
    PickOne(
        "On a GPU the matmul adds the bias before it writes its result. On this CPU?",
        (
            PickChoice(
                "the same: one aten::addmm, and nothing else computes",
                ("cpu kernels == 1",),
                "The library that computes the matmul has no bias: it adds to what is in the "
                "output already.",
            ),
            PickChoice(
                "the bias is copied into the output first",
                ("every aten::copy_ comes from aten::addmm",),
            ),
            PickChoice(
                "an aten::add follows the matmul",
                ("aten::add == 1",),
                "That is the code of lesson 1. nn.Linear calls aten::addmm, which does both.",
            ),
        ),
    ),
    why="aten::addmm calls aten::copy_, {aten::copy_ time} of its {aten::addmm time}: it writes "
    "the bias into all 1024 rows, with stride 0, and the matmul adds to them.",
    hint="addmm computes out = bias + x @ w. Think of where the matmul writes.",
    show="aten::copy_",
    row="aten::copy_",
)
VIEW_CPU = LessonStep(
    FLAT_CPU,
    PickOne(
        "The weight is 64 x 32, and the matmul needs 32 x 64. What does aten::t do?",
        (
            PickChoice(
                "it computes: every element moves",
                ("in aten::t: cpu kernels >= 1",),
                "No element has to move: a matmul can read the same memory with other strides.",
            ),
            PickChoice("nothing but metadata", ("in aten::t: cpu kernels == 0",)),
        ),
    ),
    why="aten::t returns a view: the same memory, with shape and strides swapped. It takes "
    "{aten::t time} all the same: that is dispatch, and the profiler.",
    hint="A tensor is memory, a shape and strides.",
    show="aten::t",
    row="aten::t",
)
TREE_CPU = LessonStep(
    FLAT_CPU,
    HowMany(
        "How many different ops does one aten::linear run, itself included?",
        "in aten::linear: distinct ops == {}",
        {
            "2": "aten::linear and aten::addmm are two of them. The view of the weight has ops as "
            "well, and they call each other.",
            "5": "That is a GPU: linear, t, transpose, as_strided, addmm. On a CPU addmm calls ops "
            "in turn, for the bias.",
        },
    ),
    why="They are {name of ops}. Of these {name of cpu kernels} touch elements; the others change "
    "metadata alone, which is what a compiler can remove.",
    hint="aten::t calls an op, which calls another one, and aten::addmm prepares the bias.",
    show="aten::linear",
    row="aten::linear",
)
DEEP_CPU = LessonStep(
    DEEP,
    PickOne(
        "aten::addmm takes 2-D inputs. What does nn.Linear do with 8 x 128 x 32?",
        (
            PickChoice(
                "aten::bmm: eight matmuls of 128 x 32",
                ("aten::bmm == 1",),
                "bmm is for a weight per batch entry. This weight is the same for all, so the rows "
                "can be put below each other.",
            ),
            PickChoice(
                "a view of 1024 x 32, then aten::addmm as before",
                ("aten::addmm == 1", "some aten::addmm takes 64 and 1024x32 and 32x64"),
            ),
            PickChoice(
                "aten::matmul, then aten::add for the bias",
                ("aten::matmul == 1", "aten::add == 1"),
                "That is the route of a layer without bias, less the add. With a bias and a "
                "contiguous input the rows become one matrix.",
            ),
        ),
    ),
    why="Two calls of aten::view flatten the input and give the result its shape back; both "
    "change metadata alone, {aten::view time} together. The matmul is the same.",
    hint="8 x 128 rows of 32 features lie one after the other in memory.",
    show="aten::view",
    row="aten::view",
)

LESSON = Lesson(
    number=2,
    name="linear",
    title="What nn.Linear dispatches",
    steps=(
        LessonStep(
            FLAT,
            HowMany(
                "A transposed weight, a matmul, a bias: how many kernels?",
                "kernels == {}",
                {
                    "2": "The bias has no kernel of its own. torch.add had one in lesson 1; here "
                    "the matmul adds a 1-D bias before it writes its result.",
                    "3": "Neither the transpose nor the bias has a kernel of its own: the first is "
                    "a view, the second part of the matmul.",
                },
            ),
            why="aten::addmm launches the matmul, and its name has the word "
            "{epilogue of first gemm}: it adds the bias in its epilogue, before it writes.",
            hint="Which of the three has to read and write memory by itself?",
            show="gemm",
            row="aten::addmm",
            cpu=BIAS_CPU,
        ),
        LessonStep(
            FLAT,
            PickOne(
                "The weight is 64 x 32, and the matmul needs 32 x 64. What does aten::t do?",
                (
                    PickChoice(
                        "it launches a kernel",
                        ("aten::t launches 1 kernel",),
                        "No element has to move: a kernel can read the same memory with other "
                        "strides.",
                    ),
                    PickChoice(
                        "it copies, a memcpy",
                        ("aten::t launches 1 memcpy",),
                        "A copy would keep the order of the elements. To transpose is to swap "
                        "strides, and strides are numbers on the host.",
                    ),
                    PickChoice("it launches nothing", ("aten::t launches nothing",)),
                ),
            ),
            why="aten::t returns a view: the same memory, with shape and strides swapped. It takes "
            "{aten::t time} on the host and nothing on the GPU, as Self CUDA shows.",
            hint="A tensor is memory, a shape and strides.",
            show="aten::t",
            row="aten::t",
            cpu=VIEW_CPU,
        ),
        LessonStep(
            FLAT,
            HowMany(
                "How many different ops does one aten::linear run, itself included?",
                "in aten::linear: distinct ops == {}",
                {
                    "2": "aten::linear and aten::addmm are two of them. The view of the weight has "
                    "ops as well, and they call each other.",
                    "3": "aten::linear, aten::t and aten::addmm are three of them. aten::t calls "
                    "other ops in turn.",
                    "6": "The article speaks of about six, for a layer without bias and a 3-D "
                    "input. This one has a bias and a 2-D input.",
                },
            ),
            why="They are {name of ops}. aten::addmm alone reaches the GPU; the others cost host "
            "time, which is what a compiler can remove.",
            hint="aten::t calls an op, which calls another one.",
            show="aten::linear",
            row="aten::linear",
            cpu=TREE_CPU,
        ),
        LessonStep(
            DEEP,
            PickOne(
                "aten::addmm takes 2-D inputs. What does nn.Linear do with 8 x 128 x 32?",
                (
                    PickChoice(
                        "aten::bmm: eight matmuls of 128 x 32",
                        ("aten::bmm == 1",),
                        "bmm is for a weight per batch entry. This weight is the same for all, so "
                        "the rows can be put below each other.",
                    ),
                    PickChoice(
                        "a view of 1024 x 32, then aten::addmm as before",
                        ("aten::addmm == 1", "some aten::addmm takes 64 and 1024x32 and 32x64"),
                    ),
                    PickChoice(
                        "aten::matmul, then aten::add for the bias",
                        ("aten::matmul == 1", "aten::add == 1"),
                        "That is the route of a layer without bias, less the add. With a bias and "
                        "a contiguous input the rows become one matrix.",
                    ),
                ),
            ),
            why="aten::view flattens the input and gives the result its shape back, {aten::view} "
            "calls that are free on the GPU. The kernel is the same: {name of gemm}.",
            hint="8 x 128 rows of 32 features lie one after the other in memory.",
            show="aten::view",
            row="aten::view",
            cpu=DEEP_CPU,
        ),
    ),
    read=(
        "foretrace look linear_eager_1024x32x64_bf16 --ops: every op of this layer",
        "foretrace lesson 3: what the name of that kernel says",
    ),
)
