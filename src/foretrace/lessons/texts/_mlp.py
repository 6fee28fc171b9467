"""The article's MLP as several lessons show it: gate and up first, then gelu, product and down."""

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
