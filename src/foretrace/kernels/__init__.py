"""Gated units for GPUs: GeGLU, SwiGLU and ReGLU alone, and the gated MLP whole.

    from foretrace.kernels import geglu, gated_mlp, GeGLUMLP

    out = geglu(gate, up)                       # one kernel each way, any strides
    mlp = GeGLUMLP.from_module(layer.mlp)       # Gemma's, Llama's, SimpleGeGLUMLP
    swap(model)                                 # every gated MLP of a model, in place

Needs torch alone. The kernels run with Triton on a GPU of compute capability 8.0 or more; elsewhere
plain torch runs, with one warning. `routes` describes how the fastest route is chosen, `foretrace
bench tune` measures it, `hub` writes a Hugging Face kernel repository.
"""

from foretrace.kernels import layers
from foretrace.kernels.glu import ACTIVATIONS, gated, gated_reference, geglu, reglu, swiglu
from foretrace.kernels.mlp import gated_mlp, mlp_reference
from foretrace.kernels.module import GeGLUMLP
from foretrace.kernels.support import PlainRoute
from foretrace.kernels.swapping import swap

__all__ = [
    "ACTIVATIONS",
    "GeGLUMLP",
    "PlainRoute",
    "gated",
    "gated_mlp",
    "gated_reference",
    "geglu",
    "layers",
    "mlp_reference",
    "reglu",
    "swap",
    "swiglu",
]
