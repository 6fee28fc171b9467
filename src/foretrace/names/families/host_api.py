"""Host calls: the CUDA runtime and driver, HIP, Level Zero. The field `role` says what for.

They run on the CPU. `cudaLaunchKernelExC` and `cuLaunchKernelEx` launch with attributes (clusters,
programmatic dependent launch). Triton and nvjet launch through the driver (`cuLaunchKernel…`): a
list of runtime calls alone lacks them. Which calls make the host wait is NVIDIA's documentation of
them; a long launch may also be one that waits for room in the queue.
"""

from __future__ import annotations

from functools import partial

from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rx

DRIVER = (
    r"^cu(?:Launch|Mem|Stream|Event|Ctx|Module|Graph|Device|Func|Init|Occupancy|Pointer|TensorMap"
    r"|Kernel|Library|Get|Link|Multicast|Array|Tex|Surf|IpcGet|IpcOpen)\w*$"
)


def _decode(category: str, r: NameParser) -> KernelId | None:
    if len(r.name) > 80:
        return None
    call = rx(r"cuda|hip|cu").sub("", r.name, count=1)
    if category == "xpu":
        category = "xpu_driver" if r.name.startswith("ze") else "xpu_runtime"
        call = "Launch" if "Launch" in r.name else ""
    purpose, meaning = row_for("host_api", call) or ("", "")
    purpose = "unknown API id" if r.name == "INVALID" else purpose
    r.put(r.name, "op", "host api", "a call on the CPU, not a kernel")
    r.put(r.name, "role", purpose, "{}")
    if meaning:
        r.note(r.name, meaning)
    r.put(r.name, "cat", category, "the category a trace gives it")
    return r.done("other", r.name)


FAMILIES = tuple(
    family(f"{name}_api", partial(_decode, category), 8, states, "documented", hint=pattern)
    for name, category, states, pattern in (
        ("runtime", "cuda_runtime", "role cat", r"^(?:(?:cuda|hip)[A-Z]\w*|INVALID)$"),
        ("driver", "cuda_driver", "role", DRIVER),
        ("xpu", "xpu", "role", r"^(?:urEnqueue|ze)[A-Z]\w*$"),
    )
)
