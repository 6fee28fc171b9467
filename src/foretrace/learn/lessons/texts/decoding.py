"""Lesson 10: one token at a time, and what a CUDA graph does about the launches."""

from foretrace.schema.lesson import Lesson, LessonStep, PickChoice, PickOne, Program

EAGER = Program(
    "llama_decode_eager_2layers",
    """\
x = embedding(token)  # one token, 768 features, bf16; 511 are in the cache
for block in blocks:  # two: RMSNorm, q, k, v, RoPE, cat, attention, out,
    x = block(x)      # RMSNorm, gate, up, silu, mul, down
token = head(norm(x)).argmax(-1)  # head: Linear(768, 32000, bias=False)""",
)
GRAPH = Program(
    "llama_decode_cuda_graph_2layers",
    "graph.replay()  # the same call, captured once with torch.cuda.graph(graph)",
)
MODE = Program(
    "llama_decode_reduce_overhead",
    'torch.compile(model, mode="reduce-overhead")(token, cache)  # twelve blocks',
)

GRAPHS = "CUDA graphs and their launches need a GPU"

LESSON = Lesson(
    number=10,
    name="decoding",
    title="Decoding and CUDA graphs",
    steps=(
        LessonStep(
            EAGER,
            PickOne(
                "How many launches does one token take, and what does the GPU do meanwhile?",
                (
                    PickChoice(
                        "fewer than 40, and it is mostly busy",
                        ("launches < 40", "gpu busy > 50%"),
                        "{gemm} matmuls are {gemm} launches. But RMSNorm and RoPE are written op "
                        "by op, {pointwise} pointwise kernels, and each op is a launch.",
                    ),
                    PickChoice(
                        "more than 40, and it is mostly busy",
                        ("launches >= 40", "gpu busy > 50%"),
                        "The launches are many, and the kernels short: all of them take "
                        "{gpu time}. The host spends longer on an op than the GPU on its kernel.",
                    ),
                    PickChoice(
                        "more than 40, and it is mostly idle",
                        ("launches >= 40", "gpu idle > 50%"),
                    ),
                ),
            ),
            why="{launches} launches in {wall time} without the profiler. The GPU is idle "
            "{gpu idle} of it, in the gaps between kernels: the call is host-bound.",
            hint="Write RMSNorm out: x * rsqrt(mean(x**2) + eps) * weight, in float32.",
            show="launches",
            row="aten::mul",
            cpu=GRAPHS,
        ),
        LessonStep(
            EAGER,
            PickOne(
                "The head's matmul takes {last gemm time}. What limits it?",
                (
                    PickChoice(
                        "compute",
                        ("last gemm is compute-bound",),
                        "The tensor cores do {last gemm flops} in a fraction of a microsecond. "
                        "In lesson 5 a weight served every token of a batch; here it serves one.",
                    ),
                    PickChoice("memory", ("last gemm is memory-bound",)),
                    PickChoice(
                        "latency",
                        ("last gemm is latency-bound",),
                        "That limits gate, up and down: their weights are small. The head reads "
                        "enough to keep the memory busy.",
                    ),
                ),
            ),
            why="{last gemm flops} and {last gemm bytes}: every weight is read for one token. "
            "A batch of tokens would share the read, in about the same time.",
            hint="A weight of 2 bytes is used for one multiplication and one addition.",
            show="last gemm",
            row="aten::mm",
            cpu=GRAPHS,
        ),
        LessonStep(
            GRAPH,
            PickOne(
                "What does one replay of the graph launch?",
                (
                    PickChoice(
                        "one kernel that does all of it",
                        ("kernels == 1",),
                        "A graph holds kernels and their order, and changes none of them. To fuse "
                        "is a compiler's work.",
                    ),
                    PickChoice(
                        "the same kernels, with one call",
                        ("launches == 1", "kernels == 1x of A"),
                    ),
                    PickChoice(
                        "the same kernels one by one, without Python",
                        ("launches == 1x of A",),
                        "Not even that is left for the host: the GPU has the list of kernels, and "
                        "one call starts it.",
                    ),
                ),
            ),
            why="One {call of first kernel} runs {kernels} kernels. Their time stays ({gpu time}, "
            "eager {A: gpu time}), the gaps go: {wall time} a token. No op is recorded.",
            hint="What can a capture keep: Python, ops, or kernels?",
            show="launches",
            row="cudaGraphLaunch",
            against=EAGER.recording,
            cpu=GRAPHS,
        ),
        LessonStep(
            MODE,
            PickOne(
                "Inductor fuses the ops, then captures the graph. What does a call launch now?",
                (
                    PickChoice(
                        "one graph, nothing else",
                        ("cuda graphs == 1", "memcpy == 0"),
                        "A graph reads the addresses that it was captured with. The token and the "
                        "cache that you pass are elsewhere.",
                    ),
                    PickChoice(
                        "copies of the inputs, then one graph",
                        ("cuda graphs == 1", "memcpy > 0"),
                    ),
                    PickChoice(
                        "one graph for each block",
                        ("cuda graphs > 1",),
                        "Nothing breaks the graph between blocks: the whole model is one.",
                    ),
                ),
            ),
            why="{memcpy} inputs, {memcpy bytes}, are copied to where the graph reads: a call of "
            "{wall time} for {gpu time} of GPU time. Keep the cache at one address to save that.",
            hint="Whose memory does a captured kernel read?",
            show="memcpy",
            row="aten::_foreach_copy_",
            cpu=GRAPHS,
        ),
    ),
    read=(
        "foretrace docs how-to-graphs: ops and costs of replayed graphs",
        "foretrace lesson TRACE: questions on a trace of your own",
    ),
)
