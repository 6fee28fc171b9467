"""Lesson 3: what the name of a kernel says, and what it does not."""

from foretrace.learn.lessons.texts._mlp import COMPILED_CPU, MLP, MLP_CPU
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne, Predict

STRIDES_CPU = LessonStep(
    MLP_CPU,
    PickOne(
        "A CPU trace names ops, and no kernel: the layout is in the strides. These layers run "
        "x @ weight.t(). Which strides has gate's weight when aten::mm gets it?",
        (
            PickChoice(
                "512 and 1: a matrix of 128 x 512, row by row",
                ("some aten::mm takes strides 128x1 and 512x1",),
                "That would be a copy. The weight is 512 x 128 in memory, and nobody moves it.",
            ),
            PickChoice(
                "1 and 128: the weight as it is, read by columns",
                ("some aten::mm takes strides 128x1 and 1x128",),
            ),
        ),
    ),
    why="aten::t swapped the strides of a 512 x 128 weight. On a GPU the name of the kernel says "
    "the same with its letters tn; here `foretrace check` reads the strides.",
    hint="A view changes strides, not memory.",
    show="first aten::mm",
    row="aten::t",
)
FUSED_NAME_CPU = LessonStep(
    COMPILED_CPU,
    PickOne(
        'One kernel has a name of its own: {name of op "*cpp_fused*"}. What does it compute?',
        (
            PickChoice(
                "gelu alone",
                ("gelu and mul are not fused",),
                "The name lists the ops of its loop, in the order of their names.",
            ),
            PickChoice("gelu and mul", ("gelu and mul are fused",)),
        ),
    ),
    why="Inductor wrote a C++ loop and named it after its ops. The name says neither the types "
    "nor the loop's length: `TORCH_LOGS=output_code` prints the code.",
    hint="Read the words between the underscores.",
    show='op "*cpp_fused*"',
    row='{name of op "*cpp_fused*"}',
)
FREE_CPU = LessonStep(
    MLP_CPU,
    Predict("Your turn: predict something about one call, such as `aten::mm == 3`."),
    why="Ops, their counts, inputs and strides are in every CPU trace: `foretrace docs guess` has "
    "the language.",
    hint="Try `aten::view == 3`, `some aten::mm takes 128x512 and 512x128`, `cpu kernels == 5`.",
    show="cpu kernels",
    row="aten::mul",
)

LESSON = Lesson(
    number=3,
    name="kernel_names",
    title="Kernel names",
    steps=(
        LessonStep(
            MLP,
            PickOne(
                "torch.matmul(x, w) of lesson 1 ran a kernel with layout {A: layout of gemm} in "
                "its name. These layers run x @ weight.t(). Which layout do they have?",
                (
                    PickChoice(
                        "nn",
                        ("every gemm has layout nn",),
                        "The memory is the same, but the kernel has to read it in another order: "
                        "the name says in which.",
                    ),
                    PickChoice("tn", ("every gemm has layout tn",)),
                    PickChoice(
                        "nt",
                        ("every gemm has layout nt",),
                        "cuBLAS is column-major and sees the operands swapped: the first "
                        "letter belongs to the weight, the second to x.",
                    ),
                ),
            ),
            why="In {name of first gemm} the last three letters hold it. The first one is "
            "the weight, a transposed view; the second is x, as PyTorch stores it.",
            hint="cuBLAS is column-major: it computes the transposed result with operands swapped.",
            show="gemm",
            row="aten::mm",
            against="matmul_add_eager_4096_bf16",
            cpu=STRIDES_CPU,
        ),
        LessonStep(
            MLP,
            PickOne(
                "gate, up and down do {first gemm flops} each. Do they run the same kernel?",
                (
                    PickChoice(
                        "all the same",
                        ("distinct gemm kernels == 1",),
                        "The FLOPs are the same, the shapes are not: down has four times the depth "
                        "and a quarter of the columns.",
                    ),
                    PickChoice(
                        "gate and up the same, down another",
                        (
                            "distinct gemm kernels == 2",
                            "first gemm and second gemm are the same kernel",
                        ),
                    ),
                    PickChoice(
                        "three kernels",
                        ("distinct gemm kernels == 3",),
                        "A kernel is chosen by shape, dtype and layout. gate and up have the same "
                        "of all three; which weight it is does not matter.",
                    ),
                ),
            ),
            why="cuBLAS picks by shape: tile {tile of first gemm} with {stages of first gemm} "
            "stages for gate and up, {tile of last gemm} with {stages of last gemm} for down. "
            "gate takes {first gemm time}, down {last gemm time}.",
            hint="gate and up go from 768 features to 3072, down goes back.",
            show="last gemm",
            row="aten::mm",
            cpu="a CPU trace names aten::mm alone, not the routine of the library that it calls",
        ),
        LessonStep(
            MLP,
            HowMany(
                "gelu runs ATen's vectorized_elementwise_kernel<N, ...>. N is the number of "
                "elements that a thread loads at once. Which N, in bf16?",
                "gelu has vec {}",
                {
                    "4": "4 is what the article's A100 shows. A name holds for one card and one "
                    "version: predict fields that follow from the work.",
                    "2": "2 elements are 4 bytes. A thread loads more than that at once.",
                    "1": "One element at a time would waste most of each memory transaction.",
                },
            ),
            why="A thread loads {vec of gelu} elements of 2 bytes at once, and fewer loads keep "
            "the memory busy. The name also says the op: {functor of gelu}.",
            hint="The widest load of a thread is 16 bytes here, and bf16 has 2.",
            show="gelu",
            row="aten::gelu",
            cpu=FUSED_NAME_CPU,
        ),
        LessonStep(
            MLP,
            Predict(
                "Your turn: predict something that the names say, such as `every gemm is bf16`.",
            ),
            why="Fields that names state are predictions: dtype, tile, stages, layout, epilogue, "
            "family. `foretrace name KERNEL` prints those of one name with their meaning.",
            hint="Try `every gemm is nvjet`, `no gemm has splitk`, `last gemm has tile 128x128`.",
            show="kernels",
            row="aten::mul",
            cpu=FREE_CPU,
        ),
    ),
    read=(
        "foretrace docs kernel-names: every family of names",
        "foretrace lesson 4: what limits a kernel",
    ),
)
