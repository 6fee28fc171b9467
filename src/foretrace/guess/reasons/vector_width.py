"""ATen's vector width, which depends on its version and the card."""

from __future__ import annotations

from foretrace.guess.fields import Field
from foretrace.guess.reason import Miss, Reason


def explains(miss: Miss) -> bool:
    field = miss.ask.args.get("field")
    return (
        isinstance(field, Field)
        and miss.wants_some
        and field.name == "vec"
        and miss.ask.args.get("value") == "4"
        and any(case.ident.get("vec") == 8 for case in miss.cases)
    )


REASON = Reason(
    name="vector_width",
    text=(
        "Newer ATen moves eight 16-bit elements per thread on this card, where the articles' "
        "A100 moved four."
    ),
    source="an H200, torch 2.11: vectorized_elementwise_kernel<8, …>",
    example="every pointwise has vec 4",
    near=("every pointwise has vec 2", "no pointwise has vec 8", "every gemm has registers 4"),
    trace="mlp_eager",
    explains=explains,
)
