"""Gated units for GPUs: GeGLU, SwiGLU and ReGLU alone, and the gated MLP whole.

    from foretrace.kernels import geglu, gated_mlp, GeGLUMLP

    out = geglu(gate, up)                       # one kernel each way, any strides
    mlp = GeGLUMLP.from_module(layer.mlp)       # Gemma's, Llama's, SimpleGeGLUMLP

Needs torch alone; with Triton and a GPU of compute capability 8.0 or more the kernels run,
elsewhere plain torch does, and says so once. `routes` describes how the fastest way is chosen,
`tune` measures it, `hub` writes a Hugging Face kernel repository.
"""

from . import layers
from .activations import ACTIVATIONS, gated_reference
from .glu import gated, geglu, reglu, swiglu
from .mlp import gated_mlp, mlp_reference
from .module import GeGLUMLP
from .support import PlainRoute

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
    "swiglu",
]
