"""Lesson 1: one matmul and one addition, and what the host spends on them."""

from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

SMALL = Program(
    "matmul_add_eager_64_bf16",
    """\
x, w, b = torch.randn(3, 64, 64, dtype=torch.bfloat16, device="cuda")
with record_function("matmul_add"):
    y = torch.add(torch.matmul(x, w), b)""",
)
LARGE = Program(
    "matmul_add_eager_4096_bf16",
    "the same line of code, but x, w and b are 4096 x 4096",
)
COMPILED = Program(
    "matmul_add_compiled_4096_bf16",
    "torch.compile(matmul_add)(x, w, b), still 4096 x 4096",
)

SMALL_CPU = Program(
    SMALL.recording,
    """\
x, w, b = torch.randn(3, 64, 64)
with record_function("matmul_add"):
    y = torch.add(torch.matmul(x, w), b)""",
)
LARGE_CPU = Program(LARGE.recording, "the same line of code, but x, w and b are 512 x 512")
COMPILED_CPU = Program(COMPILED.recording, "torch.compile(matmul_add)(x, w, b), still 512 x 512")
ONE_CALL_CPU = LessonStep(
    SMALL_CPU,
    HowMany(
        "How many ops of one call of matmul_add compute?",
        "cpu kernels == {}",
        {
            "1": "Eager PyTorch runs each op when Python reaches it, before it knows the next "
            "one: nothing is fused.",
            "3": "aten::matmul is an op, but it computes nothing: it picks the matmul to call.",
        },
    ),
    why="{name of cpu kernels}: {aten::mm time} and {aten::add time}. On a CPU there is no launch: "
    "the op itself does the work, in the thread that called it and those that help.",
    hint="aten::matmul only picks the matmul to call.",
    show="cpu kernels",
    row="aten::mm",
)
DISPATCH_CPU = LessonStep(
    SMALL_CPU,
    PickOne(
        "How much of one call, as it is profiled, is the matmul itself?",
        (
            PickChoice(
                "less than half",
                ("aten::mm time < 50% of cpu time",),
                "The matmul is large enough here to outweigh Python, dispatch and the profiler.",
            ),
            PickChoice(
                "half of it or more",
                ("aten::mm time >= 50% of cpu time",),
                "A 64 x 64 matmul is half a million FLOP. Python, dispatch and the profiler take "
                "longer than that.",
            ),
        ),
    ),
    why="aten::mm takes {aten::mm time} of {cpu time}. Without the profiler a call takes "
    "{wall time}: the profiler writes an event for every op, and small ops show it most.",
    hint="The profiler writes an event for each op, and that takes time too.",
    show="aten::mm",
    row="aten::mm",
)
LARGE_STEP_CPU = LessonStep(
    LARGE_CPU,
    PickOne(
        "Each matrix has 64 times as many elements now. Which op has grown most?",
        (
            PickChoice(
                "aten::add",
                ("aten::add time > aten::mm time",),
                "It did grow: it reads and writes 64 times as much. The matmul has 512 times as "
                "much to do.",
            ),
            PickChoice("aten::mm", ("aten::mm time > aten::add time",)),
        ),
    ),
    why="The work of a matmul grows with the cube of the size: {aten::mm time} now, and "
    "{aten::add time} for the add. A call takes {wall time} without the profiler.",
    hint="The work of a matmul grows with the cube of the size, its data with the square.",
    show="aten::mm",
    row="aten::mm",
)
COPY_CPU = LessonStep(
    COMPILED_CPU,
    PickOne(
        "torch.compile turns both ops into one aten::addmm. What does the CPU compute with?",
        (
            PickChoice(
                "one op: the matmul adds b by itself",
                ("aten::addmm == 1", "aten::copy_ == 0"),
                "addmm computes out = b + x @ w, and the library's matmul adds to what is in "
                "out: b has to be there first.",
            ),
            PickChoice(
                "a copy of b, then a matmul that adds to it",
                ("aten::addmm == 1", "aten::copy_ == 1"),
            ),
            PickChoice(
                "still aten::mm and a generated loop for the add",
                ("aten::mm == 1",),
                "Inductor could do that. Here it finds an op that does both, and calls it.",
            ),
        ),
    ),
    why="aten::addmm calls aten::copy_ first, {aten::copy_ time} of its {aten::addmm time}: the "
    "bias goes into the output. A call takes {wall time}, an eager one {A: wall time}.",
    hint="addmm computes out = b + x @ w. Think of where the matmul writes.",
    show="aten::copy_",
    row="aten::addmm",
    against=LARGE.recording,
)

LESSON = Lesson(
    number=1,
    name="matmul_add",
    title="One matmul and one addition",
    steps=(
        LessonStep(
            SMALL,
            HowMany(
                "How many kernels does one call of matmul_add launch?",
                "kernels == {}",
                {
                    "1": "Eager PyTorch runs each op when Python reaches it, before it knows the "
                    "next one: nothing is fused.",
                    "3": "The inputs are on the GPU already: an op launches one kernel for its "
                    "result, and none to read its inputs.",
                },
            ),
            why="aten::matmul calls aten::mm, which launches the matmul; aten::add launches the "
            "other one. The {kernels} kernels take {gpu time} together.",
            hint="Count the ops that compute. aten::matmul only picks the matmul to call.",
            show="kernels",
            row="aten::mm",
            cpu=ONE_CALL_CPU,
        ),
        LessonStep(
            SMALL,
            PickOne(
                "For how much of the time of one call is the GPU busy?",
                (
                    PickChoice(
                        "less than 10%",
                        ("gpu busy < 10%",),
                    ),
                    PickChoice(
                        "between 10% and 50%",
                        ("gpu busy >= 10%", "gpu busy <= 50%"),
                        "The kernels are smaller than you think: the matmul does {gemm flops}, "
                        "and takes {gemm time}.",
                    ),
                    PickChoice(
                        "more than 50%",
                        ("gpu busy > 50%",),
                        "That holds for large matrices. Here each kernel ends long before the "
                        "host has launched the next one.",
                    ),
                ),
            ),
            why="The GPU is busy {gpu busy} of the time: it works {gpu time} in a call that takes "
            "{wall time} without the profiler. The rest is Python, dispatch and launches.",
            hint="The host needs several microseconds for one launch.",
            show="launches",
            row="aten::add",
            cpu=DISPATCH_CPU,
        ),
        LessonStep(
            LARGE,
            PickOne(
                "Each matrix has 4096 times as many elements now. What bounds one call?",
                (
                    PickChoice(
                        "the host",
                        ("bound is host",),
                        "A launch costs the same as before, but the host is far ahead: while the "
                        "matmul runs, it launches the next call.",
                    ),
                    PickChoice(
                        "memory",
                        ("bound is memory",),
                        "That is right for the add, which takes {add time}. The matmul reuses "
                        "each element 4096 times.",
                    ),
                    PickChoice("the tensor cores", ("bound is compute",)),
                ),
            ),
            why="The matmul takes {gemm time} of {gpu time} and does {gemm flops}. The launches "
            "are hidden: the GPU is busy {gpu busy} of the time.",
            hint="The work of a matmul grows with the cube of the size, its data with the square.",
            show="gemm",
            row="aten::mm",
            cpu=LARGE_STEP_CPU,
        ),
        LessonStep(
            COMPILED,
            PickOne(
                "torch.compile turns both ops into one aten::addmm. What runs on the GPU?",
                (
                    PickChoice(
                        "one kernel: the matmul adds b by itself",
                        ("kernels == 1", "memcpy == 0"),
                        "That holds for a 1-D bias. A 2-D b has to be in the output "
                        "before the matmul can add to it.",
                    ),
                    PickChoice(
                        "a copy of b, then one kernel that adds to it",
                        ("kernels == 1", "memcpy == 1"),
                    ),
                    PickChoice(
                        "still two kernels: Inductor cannot change a matmul",
                        ("kernels == 2",),
                        "Inductor does not change the matmul, but it may call another op: "
                        "addmm does both.",
                    ),
                ),
            ),
            why="aten::addmm copies b into the output first, {memcpy time}, and the matmul adds "
            "to it. That saves no GPU time: {A: gpu time} eager, {gpu time} compiled.",
            hint="addmm computes out = b + x @ w. Think of where the matmul writes.",
            show="memcpy",
            row="aten::addmm",
            against="matmul_add_eager_4096_bf16",
            cpu=COPY_CPU,
        ),
    ),
    read=(
        "foretrace docs how-to-idle-gpu: why a GPU is idle, and what to do",
        "foretrace lesson 2: what nn.Linear dispatches",
    ),
)
