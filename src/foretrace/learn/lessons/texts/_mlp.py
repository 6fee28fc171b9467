"""The article's MLP as several lessons show it: gate and up first, then gelu, mul and down."""

from foretrace.schema.lesson import Program

EAGER = "mlp_eager_64x128x768x3072_bf16"
MLP = Program(
    EAGER,
    """\
with record_function("mlp_fwd"):  # x: 64 x 128 x 768, bf16
    gate, up = gate_proj(x), up_proj(x)  # Linear(768, 3072, bias=False)
    h = F.gelu(gate, approximate="tanh") * up
    y = down_proj(h)  # Linear(3072, 768, bias=False)""",
)
# at the sizes of the ladder on a CPU
MLP_CPU = Program(
    EAGER,
    """\
with record_function("mlp_fwd"):  # x: 4 x 32 x 128
    gate, up = gate_proj(x), up_proj(x)  # Linear(128, 512, bias=False)
    h = F.gelu(gate, approximate="tanh") * up
    y = down_proj(h)  # Linear(512, 128, bias=False)""",
)
COMPILED_CPU = Program(
    "mlp_compiled_64x128x768x3072_bf16",
    """\
gate, up = gate_proj(x), up_proj(x)  # x: 4 x 32 x 128, under torch.compile
y = down_proj(F.gelu(gate, approximate="tanh") * up)""",
)
