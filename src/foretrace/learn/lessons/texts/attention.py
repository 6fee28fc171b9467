"""Lesson 8: attention, five ways."""

from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Program

NAIVE = Program(
    "attention_naive_8x16x1024x64_bf16",
    """\
scores = q @ k.transpose(-2, -1) * 64**-0.5  # all 8 x 16 x 1024 x 64
scores = scores.masked_fill(mask, float("-inf"))  # bf16, causal
y = torch.softmax(scores, dim=-1) @ v""",
)
SDPA = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
MATH = Program("attention_math_8x16x1024x64_bf16", f"y = {SDPA}  # math")
FLASH = Program("attention_flash_8x16x1024x64_bf16", f"y = {SDPA}  # flash")
CUDNN = Program("attention_cudnn_8x16x1024x64_bf16", f"y = {SDPA}  # cuDNN")

NAIVE_CPU = Program(
    NAIVE.recording,
    """\
scores = q @ k.transpose(-2, -1) * 32**-0.5  # all 1 x 4 x 128 x 32
scores = scores.masked_fill(mask, float("-inf"))  # causal
y = torch.softmax(scores, dim=-1) @ v""",
)
CLONE_CPU = LessonStep(
    NAIVE_CPU,
    HowMany(
        "How often do these three lines clone the scores (aten::clone)?",
        "aten::clone == {}",
        {
            "0": "masked_fill without an underscore must not change its input: it clones the "
            "scores first.",
            "2": "The transposed k is a view, which the matmul reads as it is. One other op has "
            "to clone.",
        },
    ),
    why="masked_fill clones the scores, {aten::clone time} of its {aten::masked_fill time}, and "
    "fills the clone. masked_fill_ saves that: it is the second way.",
    hint="Which op returns a new tensor that differs from its input in some places alone?",
    show="aten::clone",
    row="aten::masked_fill",
)
MATH_CPU = LessonStep(
    MATH,
    PickOne(
        "Written out, {A: cpu kernels} ops compute. SDPA's math backend is the third way. It has?",
        (
            PickChoice(
                "fewer",
                ("cpu kernels < 1x of A",),
                "That is what the fused backend does. Math is written with the same ops as the "
                "naive way, and with more of them.",
            ),
            PickChoice(
                "as many",
                ("cpu kernels == 1x of A",),
                "It is the same formula, but it builds the mask at every call, and takes care of "
                "rows that are masked altogether.",
            ),
            PickChoice("more", ("cpu kernels > 1x of A",)),
        ),
    ),
    why="{cpu kernels} against {A: cpu kernels}, with {name of cpu kernels} among them. Math is "
    "the reference, and builds its mask at every call.",
    hint="Who makes the mask when is_causal=True is passed?",
    show="aten::bmm",
    row="aten::bmm",
    against=NAIVE.recording,
)
FLASH_CPU = LessonStep(
    FLASH,
    HowMany(
        "And the flash backend, which CPUs have too: how many ops compute?",
        "cpu kernels == {}",
        {
            "2": "Two matmuls are two ops only where the scores between them are written to "
            "memory. Flash keeps a tile of them in the caches.",
            "3": "Matmul, softmax, matmul: flash does them tile by tile in one op.",
            "6": "That is the naive way. Flash never writes the scores.",
        },
    ),
    why="One op, {name of cpu kernels}, holds both matmuls, the mask and the softmax. A call "
    "takes {wall time}, a naive one {A: wall time}.",
    hint="What if nobody wrote the scores?",
    show="cpu kernels",
    row="aten::scaled_dot_product_attention",
    against=NAIVE.recording,
)

LESSON = Lesson(
    number=8,
    name="attention",
    title="Attention, five ways",
    steps=(
        LessonStep(
            NAIVE,
            HowMany(
                "How many memcpys are in one call of these three lines?",
                "memcpy == {}",
                {
                    "0": "masked_fill without an underscore must not change its input: it clones "
                    "the scores first.",
                    "2": "The transposed k is a view, which the matmul reads as it is. One other "
                    "op has to copy.",
                },
            ),
            why="masked_fill copies the scores, {memcpy bytes} in {memcpy time}, and fills the "
            "copy. masked_fill_ saves the copy: that is the second way.",
            hint="Which op returns a new tensor that differs from its input in some places alone?",
            show="memcpy",
            row="aten::masked_fill",
            cpu=CLONE_CPU,
        ),
        LessonStep(
            MATH,
            PickOne(
                "The naive way takes {A: gpu time} on the GPU. SDPA's math backend, the third way?",
                (
                    PickChoice(
                        "less than half",
                        ("gpu time < 0.5x of A",),
                        "That is what the fused backends do. Math is written with the same ops as "
                        "the naive way, and with more of them.",
                    ),
                    PickChoice(
                        "about the same",
                        ("gpu time >= 0.5x of A", "gpu time <= 2x of A"),
                        "It is the same formula in another precision: look at the data type of "
                        "the matmuls.",
                    ),
                    PickChoice("more than twice", ("gpu time > 2x of A",)),
                ),
            ),
            why="{kernels} kernels and {gpu time}, against {A: kernels} and {A: gpu time}. It "
            "computes in {dtype of gemm}: twice the bytes, and matmuls off the tensor cores.",
            hint="Math is the reference: it favours precision.",
            show="gemm",
            row="aten::bmm",
            against=NAIVE.recording,
            cpu=MATH_CPU,
        ),
        LessonStep(
            FLASH,
            HowMany(
                "The flash backend is the fourth way: how many kernels?",
                "kernels == {}",
                {
                    "2": "Two matmuls are two kernels only where the scores between them are "
                    "written to memory. Flash keeps a tile of them in registers.",
                    "3": "Matmul, softmax, matmul: flash does them tile by tile in one kernel.",
                    "5": "That is the naive way. Flash never writes the scores.",
                },
            ),
            why="One kernel holds both matmuls, the mask and the softmax, and the scores are "
            "never in memory. It takes {gpu time}.",
            hint="The scores are 1024 x 1024 for each of 128 heads. What if nobody wrote them?",
            show="attention",
            row="aten::_flash_attention_forward",
            cpu=FLASH_CPU,
        ),
        LessonStep(
            CUDNN,
            PickOne(
                "cuDNN is the fifth. On the article's A100 flash is faster. On this card?",
                (
                    PickChoice(
                        "flash is still faster",
                        ("gpu time > 1.1x of A",),
                        "The flash kernel of this torch is written for Ampere. It runs here, and "
                        "does not use what is new on Hopper.",
                    ),
                    PickChoice(
                        "both within a tenth",
                        ("gpu time >= 0.9x of A", "gpu time <= 1.1x of A"),
                        "Both read and write the same tensors, but they are not limited by "
                        "memory: the instructions of the matmuls decide.",
                    ),
                    PickChoice("cuDNN is faster", ("gpu time < 0.9x of A",)),
                ),
            ),
            why="cuDNN takes {attention time}, flash {A: attention time}. The name of "
            "cuDNN's kernel says {arch of attention} and wgmma, Hopper's own instruction.",
            hint="Flash is FlashAttention-2, which is written for Ampere. The name of cuDNN's "
            "kernel says {arch of attention}.",
            show="attention",
            row="aten::_cudnn_attention_forward",
            against=FLASH.recording,
            cpu="cuDNN is a library for GPUs",
        ),
    ),
    read=(
        "foretrace recordings attention: all of them, with their times",
        "foretrace docs ladder: the time of every backend without the profiler",
    ),
)
