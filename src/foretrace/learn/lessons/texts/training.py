"""Lesson 9: a training step: backward, and three ways to run AdamW."""

from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

SIZES = "4x512x4x768x12x3072x32000_bf16"
FOREACH = Program(
    f"train_step_foreach_{SIZES}",
    """\
loss = model(tokens)  # 4 x 512 tokens, a decoder of 4 layers of 768, bf16
loss.backward()
optimizer.step()  # torch.optim.AdamW(..., foreach=True)""",
)
LOOP = Program(f"train_step_forloop_{SIZES}", "optimizer.step()  # foreach=False")
FUSED = Program(f"train_step_fused_{SIZES}", "optimizer.step()  # fused=True")

FOREACH_CPU = Program(
    FOREACH.recording,
    """\
loss = model(tokens)  # 1 x 32 tokens, a decoder of 2 layers of 64
loss.backward()
optimizer.step()  # torch.optim.AdamW(..., foreach=True)""",
)
BACKWARD_CPU = LessonStep(
    FOREACH_CPU,
    HowMany(
        "forward runs {in forward: aten::mm} matmuls. How many does backward run?",
        "in backward: aten::mm == {}",
        {
            "11": "That is the gradient of every input. The weights have gradients too, and each "
            "is a matmul of its own.",
            "33": "That is forward and backward together.",
        },
    ),
    why="y = x @ W.t() has two gradients, of x and of W, and each is a matmul. backward takes "
    "{in backward: cpu time}, forward {in forward: cpu time}.",
    hint="Which gradients does one linear layer have to compute?",
    show='region "backward"',
    row="aten::mm",
)
LOOP_CPU = LessonStep(
    LOOP,
    PickOne(
        "With foreach=True {A: in optimizer: cpu kernels} ops compute in AdamW. Weight by weight?",
        (
            PickChoice(
                "about as many",
                (
                    "in optimizer: cpu kernels >= 0.8x of A",
                    "in optimizer: cpu kernels <= 1.25x of A",
                ),
                "On this machine foreach has an implementation that takes many weights at once.",
            ),
            PickChoice(
                "many more",
                ("in optimizer: cpu kernels > 1.25x of A",),
                "That is a GPU, where one kernel takes a list of weights. On a CPU foreach goes "
                "through the list itself, and calls the same ops.",
            ),
            PickChoice(
                "fewer",
                ("in optimizer: cpu kernels < 0.8x of A",),
                "The loop calls an op for each step of AdamW and each weight. None is saved.",
            ),
        ),
    ),
    why="{in optimizer: cpu kernels} against {A: in optimizer: cpu kernels}: a CPU has no kernel "
    "for a list of weights, so aten::_foreach_* calls the same ops weight by weight.",
    hint="foreach saves launches. What does a CPU launch?",
    show='region "optimizer"',
    row="aten::sqrt",
    against=FOREACH.recording,
)
FUSED_CPU = LessonStep(
    FUSED,
    HowMany(
        "And fused=True: how often is aten::_fused_adamw_ called in one step?",
        "in optimizer: aten::_fused_adamw_ == {}",
        {
            "17": "That would be once for each weight. It takes the list of them.",
            "0": "A CPU has a fused AdamW as well, in C++.",
        },
    ),
    why="One call does every step of AdamW for all weights: the optimizer takes "
    "{in optimizer: cpu time} instead of {A: in optimizer: cpu time}. The whole step takes "
    "{wall time}, with foreach {A: wall time}.",
    hint="It takes a list of weights.",
    show="aten::_fused_adamw_",
    row="aten::_fused_adamw_",
    against=FOREACH.recording,
)

LESSON = Lesson(
    number=9,
    name="training",
    title="A training step",
    steps=(
        LessonStep(
            FOREACH,
            HowMany(
                "forward launches {in forward: gemm} matmuls. How many does backward launch?",
                "in backward: gemm == {}",
                {
                    "21": "That is the gradient of every input. The weights have gradients too, "
                    "and each is a matmul of its own.",
                    "63": "That is forward and backward together.",
                },
            ),
            why="y = x @ W.t() has two gradients, of x and of W, and each is a matmul. backward "
            "takes {in backward: gpu time} on the GPU, forward {in forward: gpu time}.",
            hint="Which gradients does one linear layer have to compute?",
            show="gemm",
            row="aten::mm",
            cpu=BACKWARD_CPU,
        ),
        LessonStep(
            LOOP,
            PickOne(
                "foreach=True takes {A: kernels} kernels a step, {A: in optimizer: kernels} of "
                "them for AdamW. And AdamW weight by weight?",
                (
                    PickChoice(
                        "as many",
                        ("in optimizer: kernels <= 1x of A",),
                        "foreach passes a list of weights to one kernel. The loop launches "
                        "several for each weight.",
                    ),
                    PickChoice(
                        "up to four times",
                        ("in optimizer: kernels > 1x of A", "in optimizer: kernels <= 4x of A"),
                        "There are more weights than that, and each one has its own kernels: "
                        "moments, square root, division, update.",
                    ),
                    PickChoice("more", ("in optimizer: kernels > 4x of A",)),
                ),
            ),
            why="{in optimizer: kernels} kernels: several for each weight. Their GPU time is "
            "{in optimizer: gpu time}, that of foreach {A: in optimizer: gpu time}.",
            hint="How many weights has a decoder of four layers?",
            show='region "optimizer"',
            row="aten::addcdiv_",
            against=FOREACH.recording,
            cpu=LOOP_CPU,
        ),
        LessonStep(
            LOOP,
            PickOne(
                "The GPU time of AdamW is {in optimizer: gpu time} here, and "
                "{A: in optimizer: gpu time} with foreach. Is a whole step shorter as well?",
                (
                    PickChoice(
                        "shorter",
                        ("wall time < 0.95x of A",),
                        "The GPU is busy {gpu busy} of the step. What it waits for are launches, "
                        "and the loop has more of them.",
                    ),
                    PickChoice(
                        "the same, within 5%",
                        ("wall time >= 0.95x of A", "wall time <= 1.05x of A"),
                        "It would be if the GPU were the limit. Here it waits for the host.",
                    ),
                    PickChoice("longer", ("wall time > 1.05x of A",)),
                ),
            ),
            why="{wall time} against {A: wall time}: {launches} launches instead of "
            "{A: launches}, and the host sets the pace. GPU time saved does not help a host-bound "
            "step.",
            hint="Is the GPU the limit? Think of lesson 4.",
            show="launches",
            row="aten::addcdiv_",
            against=FOREACH.recording,
            cpu="launches are what the loop has more of, and a CPU launches nothing",
        ),
        LessonStep(
            FUSED,
            HowMany(
                "And fused=True: how many kernels does AdamW launch?",
                "in optimizer: kernels == {}",
                {
                    "1": "A kernel takes its list of weights as an argument, and an argument has a "
                    "limited size: a few are needed.",
                    "40": "That is foreach: one operation of AdamW after the other, over lists of "
                    "weights. Fused does all of them for a weight at once.",
                },
            ),
            why="One counts the steps; the others read weight, gradient and moments once: "
            "{in optimizer: gpu time} instead of {A: in optimizer: gpu time}. The step takes "
            "{wall time}, with foreach {A: wall time}: the host is still the limit.",
            hint="One pass over each weight, in as few launches as the arguments allow.",
            show="optimizer",
            row="aten::_fused_adamw_",
            against=FOREACH.recording,
            cpu=FUSED_CPU,
        ),
    ),
    read=(
        "foretrace docs how-to-capture: record your own training loop",
        f"foretrace look train_step_foreach_{SIZES}",
    ),
)
