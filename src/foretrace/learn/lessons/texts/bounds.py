"""Lesson 4: overhead-bound, memory-bound, compute-bound."""

from foretrace.learn.lessons.texts._mlp import MLP, MLP_CPU
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

LINEAR = Program(
    "linear_eager_1024x32x64_bf16",
    "y = torch.nn.Linear(32, 64)(x)  # x: 1024 x 32, bf16",
)

SHARE_CPU = LessonStep(
    MLP_CPU,
    PickOne(
        "The matmuls do almost all the arithmetic of this MLP. How much of the time?",
        (
            PickChoice(
                "less than half",
                ("aten::mm time < 50% of cpu time",),
                "The matmuls are the larger part here: {aten::mm time} of {cpu time}.",
            ),
            PickChoice(
                "half to 90%",
                ("aten::mm time >= 50% of cpu time", "aten::mm time <= 90% of cpu time"),
                "The matmuls take {aten::mm time} of {cpu time}. Add gelu, mul and the dispatch "
                "of the other ops.",
            ),
            PickChoice(
                "more than 90%",
                ("aten::mm time > 90% of cpu time",),
                "gelu takes {aten::gelu time} and mul {aten::mul time}: they do little arithmetic, "
                "and take time all the same.",
            ),
        ),
    ),
    why="aten::mm takes {aten::mm time} of {cpu time}, gelu {aten::gelu time}, mul "
    "{aten::mul time}. The rest is dispatch: views and wrappers, which compute nothing.",
    hint="Pointwise ops read and write whole tensors.",
    show="aten::mm",
    row="aten::mm",
)
POINTWISE_CPU = LessonStep(
    MLP_CPU,
    PickOne(
        "gelu reads one tensor and mul two of the same size. Which takes longer on this CPU?",
        (
            PickChoice(
                "gelu: tanh",
                ("aten::gelu time > aten::mul time",),
                "The tensors fit into the caches here and tanh is vectorized: it is not what "
                "decides.",
            ),
            PickChoice(
                "mul, or neither: it moves more bytes",
                ("aten::gelu time <= aten::mul time",),
                "On a GPU it would: memory is the limit there. A core needs many instructions for "
                "one tanh, and the tensors are in its caches.",
            ),
        ),
    ),
    why="gelu takes {aten::gelu time}, mul {aten::mul time}. On a GPU both are memory-bound; what "
    "limits a core depends on its caches, its vectors and how many of them share the work.",
    hint="Count instructions as well as bytes.",
    show="aten::gelu",
    row="aten::gelu",
)

LESSON = Lesson(
    number=4,
    name="bounds",
    title="What limits the time",
    steps=(
        LessonStep(
            LINEAR,
            PickOne(
                "A GPU that is twice as fast: what happens to the time of this layer?",
                (
                    PickChoice(
                        "it halves",
                        ("bound is compute",),
                        "It would if the GPU set the pace. This GPU is idle {gpu idle} of the "
                        "time.",
                    ),
                    PickChoice(
                        "it stays about the same",
                        ("bound is host",),
                    ),
                    PickChoice(
                        "it depends on its memory",
                        ("bound is memory",),
                        "The layer reads and writes {gemm bytes}. Any GPU moves that in less "
                        "time than one launch takes.",
                    ),
                ),
            ),
            why="The kernel takes {gpu time}, one call {wall time} without the profiler: it is "
            "overhead-bound, or host-bound. Larger inputs, fewer ops or a CUDA graph help.",
            hint="Compare the length of the kernel with that of the launch.",
            show="launches",
            row="aten::addmm",
            cpu="the bound of a call is that of a GPU, and a CPU is what computes here",
        ),
        LessonStep(
            MLP,
            PickOne(
                "What limits the kernel of gelu, which takes {gelu time}?",
                (
                    PickChoice(
                        "compute: tanh",
                        ("gelu is compute-bound",),
                        "tanh costs tens of operations an element, and the GPU does them while it "
                        "waits for the next elements.",
                    ),
                    PickChoice("memory: reads and writes", ("gelu is memory-bound",)),
                    PickChoice(
                        "latency: it is short",
                        ("gelu is latency-bound",),
                        "Latency limits a kernel with little to do. This one moves {gelu bytes}, "
                        "which fills every SM many times over.",
                    ),
                ),
            ),
            why="It moves {gelu bytes} and computes little per byte. Pointwise kernels are "
            "memory-bound as a rule: fusing them saves traffic, faster arithmetic does not.",
            hint="Divide the operations of one element by its bytes.",
            show="gelu",
            row="aten::gelu",
            cpu=POINTWISE_CPU,
        ),
        LessonStep(
            MLP,
            HowMany(
                "gelu reads one tensor and writes one, {gelu bytes} in {gelu time}. How many TB/s "
                "is that? (25% off still counts)",
                "gelu bandwidth == {} TB/s +- 25%",
                {
                    "4.8": "That is the datasheet of an H200. {HBM roof} was measured, and kernels "
                    "that read from HBM stay below it.",
                    "8.9": "That is L2. It holds {L2 size}, and gelu moves {gelu bytes}.",
                    "1.6": "You counted the tensor once. gelu reads it and writes it.",
                },
            ),
            why="Bytes over time; that is {roof of gelu}% of the {HBM roof} measured of HBM. mul "
            "reaches {roof of mul}%. L2 gives {L2 roof} but holds {L2 size}: with 1,024 rows, not "
            "8,192, these tensors stay there.",
            hint="Divide one by the other: MB per us is TB/s.",
            show="gelu",
            row="aten::gelu",
            cpu="the roof of a kernel needs the peaks of a card; foretrace has none of CPUs",
        ),
        LessonStep(
            MLP,
            PickOne(
                "And the whole MLP: what bounds one call?",
                (
                    PickChoice(
                        "the host: many ops",
                        ("bound is host",),
                        "It has many ops, but the host launches all of them while the first "
                        "matmuls run: the GPU is busy {gpu busy} of the time.",
                    ),
                    PickChoice(
                        "memory: gelu and mul",
                        ("bound is memory",),
                        "Memory limits {pointwise} of {kernels} kernels, and these take "
                        "{pointwise time} of {gpu time}. Count time, not kernels.",
                    ),
                    PickChoice("compute: gate, up, down", ("bound is compute",)),
                ),
            ),
            why="gate, up and down take {gemm time} of {gpu time}, gate at {roof of first gemm}% "
            "and down at {roof of last gemm}% of what tensor cores were measured to do. Time can "
            "be saved there, or by fusing the rest.",
            hint="gate, up and down are matmuls of large matrices. Add up their time.",
            show="gemm",
            row="aten::mm",
            cpu=SHARE_CPU,
        ),
    ),
    read=(
        "foretrace docs costs: FLOPs and bytes of every op",
        "foretrace docs roofs: HBM, L2 and tensor cores, measured",
        "foretrace lesson 5: the MLP, kernel by kernel",
    ),
)
