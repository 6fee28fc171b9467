"""Record the traces of `tests/recorded` on a GPU: `python tools/record_faults.py FOLDER [NAME]`.

Each workload shows one fault, or its fix. A run record with the times of the same call without
the profiler lies beside each trace. It needs torch, Triton, transformers and a CUDA GPU; foretrace
itself is not imported, so that a bare machine can run it.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from llama_shape import Llama, RMSNorm
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile, record_function, schedule

Call = Callable[[], object]
Save = Callable[..., None]
WIDE = torch.float32
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
BATCHES, BATCH_S = 7, 0.035


def record(folder: Path, name: str, call: Call, region: str, steps: int = 3) -> None:
    """Write one trace and its run record."""
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    run = {
        "kind": "foretrace-run",
        "timing": timing(call),
        "rung": {"region": region},
        "device": {"name": torch.cuda.get_device_name()},
        "torch": {"version": torch.__version__},
    }
    trace, packed = folder / f"{name}.json", folder / f"{name}.json.gz"
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    plan = schedule(wait=1, warmup=1, active=steps)
    written = partial(profile.export_chrome_trace, path=str(trace))
    with profile(
        activities=activities, record_shapes=True, schedule=plan, on_trace_ready=written
    ) as profiler:
        for _ in range(2 + steps):
            with record_function(region):
                call()
            profiler.step()
    packed.write_bytes(gzip.compress(trace.read_bytes(), 9, mtime=0))
    trace.unlink()
    (folder / f"{name}.run.json").write_text(json.dumps(run, indent=1))


def timing(call: Call) -> dict[str, float]:
    """Medians of batches without the profiler."""
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = max(3, min(500, int(BATCH_S / max(time.perf_counter() - start, 1e-6))))
    wall, host = [], []
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        host.append((time.perf_counter() - start) / calls * 1e9)
        torch.cuda.synchronize()
        wall.append((time.perf_counter() - start) / calls * 1e9)
    middle = statistics.median(wall)
    return {
        "wall_ns_per_call": round(middle),
        "wall_spread": round((max(wall) - min(wall)) / middle, 4),
        "host_ns_per_call": round(statistics.median(host)),
    }


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def compiled(call: Call, **options: object) -> Call:
    torch._dynamo.reset()
    return torch.compile(call, **options)


def without_gradients(call: Call) -> Call:
    return torch.no_grad()(call)


def decode(save: Save) -> None:
    """One token: eager, in a CUDA graph, compiled with one."""
    for layers, suffix in ((12, ""), (2, "_2layers")):
        model = Llama(layers, 768, 12, 4, 2048, 32000).to("cuda", torch.bfloat16)
        ids = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        past = [(random(1, 4, 511, 64), random(1, 4, 511, 64)) for _ in range(layers)]
        call = without_gradients(partial(model, ids, random(1, 64), random(1, 64), past))
        save(f"llama_decode_eager{suffix}", call, "decode")
        save(f"llama_decode_cuda_graph{suffix}", captured(call).replay, "decode")
        if not suffix:
            graph = compiled(call, mode="reduce-overhead")
            save("llama_decode_reduce_overhead", graph, "decode")


def captured(call: Call) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def attention(save: Save) -> None:
    """The same inputs in flash attention 2 and in cuDNN."""

    def run(backend: SDPBackend, shapes: list[list[int]], causal: bool, backward: bool) -> Call:
        q, k, v = (random(*shape).requires_grad_(backward) for shape in shapes)

        def call() -> None:
            with sdpa_kernel(backend):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
            if backward:
                torch.autograd.grad(y, (q, k, v), torch.ones_like(y))

        return call

    few, one = [[4, 8, 2048, 128]] * 2, [[8, 8, 4096, 128]] * 2
    for name, backend in BACKENDS.items():
        gqa = run(backend, [[4, 32, 2048, 128], *few], True, False)
        save(f"attention_causal_gqa_{name}", gqa, "attention")
        save(
            f"attention_decode_{name}",
            run(backend, [[8, 32, 1, 128], *one], False, False),
            "attention",
        )
        train = run(backend, [[4, 16, 2048, 128]] * 3, True, True)
        save(f"attention_train_{name}", train, "attention")


def causal_masks(save: Save) -> None:
    """is_causal and enable_gqa in our model; a mask that transformers writes while tracing."""
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = torch.zeros(4, 1024, dtype=torch.long, device="cuda")
    own = Llama(2, 2048, 16, 4, 5632, 4096).to("cuda", torch.bfloat16)
    sizes = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4}
    more = {"intermediate_size": 5632, "num_hidden_layers": 2, "vocab_size": 4096}
    library = LlamaForCausalLM(LlamaConfig(**sizes, **more, use_cache=False))
    calls = {
        "llama_causal": partial(own, ids, random(1024, 128), random(1024, 128)),
        "hf_llama_causal": partial(library.to("cuda", torch.bfloat16), input_ids=ids),
    }
    for name, model in calls.items():
        call = without_gradients(model)
        save(f"{name}_eager", call, "forward")
        save(f"{name}_compiled", compiled(call), "forward")


def epilogues(save: Save) -> None:
    """An activation beside the product, in its epilogue, and compiled."""
    x, weight, bias = random(8192, 1024), random(4096, 1024), random(4096)
    apart = {
        "relu": lambda: F.relu(F.linear(x, weight, bias)),
        "gelu_tanh": lambda: F.gelu(F.linear(x, weight, bias), approximate="tanh"),
    }
    for name, call in apart.items():
        inside = partial(torch._addmm_activation, bias, x, weight.t(), use_gelu=name != "relu")
        save(f"linear_{name}_eager", call, "layer")
        save(f"linear_{name}_epilogue", inside, "layer")
        save(f"linear_{name}_compiled", compiled(call), "layer")


def gradients(save: Save) -> None:
    """Gradients that are zeroed, and gradients that are set to None."""
    for name, to_none in (("kept", False), ("none", True)):
        layers = [nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)]
        model, x = nn.Sequential(*layers).to("cuda", torch.bfloat16), random(2048, 1024)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        save(f"train_grads_{name}", partial(train, model, optimizer, x, to_none), "train_step")


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, to_none: bool) -> None:
    optimizer.zero_grad(set_to_none=to_none)
    model(x).float().pow(2).mean().backward()
    optimizer.step()


def streams(save: Save) -> None:
    """Streams that wait for each other, that the host keeps apart, and that overlap."""
    left, right = torch.cuda.Stream(), torch.cuda.Stream()
    small, large, rows = random(512, 1024), random(4096, 4096), random(8, 1 << 20, dtype=WIDE)

    def take_turns(x: Tensor, wait: bool) -> None:
        for _ in range(3):
            for mine, other in ((left, right), (right, left)):
                if wait:
                    mine.wait_stream(other)
                with torch.cuda.stream(mine):
                    x @ x.t()

    def overlap() -> None:
        for _ in range(3):
            for mine in (left, right):
                with torch.cuda.stream(mine):
                    rows.softmax(-1)

    save("streams_wait_for_each_other", partial(take_turns, large, True), "two_streams")
    save("streams_never_overlap", partial(take_turns, small, True), "two_streams")
    save("streams_host_bound", partial(take_turns, small, False), "two_streams")
    save("streams_overlap", overlap, "two_streams")
    save("streams_copies_waits", partial(copies, left, right, torch.cuda.Stream()), "load")


def copies(first: torch.cuda.Stream, second: torch.cuda.Stream, last: torch.cuda.Stream) -> None:
    """A pageable and a pinned copy, and a stream that waits for both."""
    sides = ((first, torch.ones(1 << 24)), (second, torch.ones(1 << 24).pin_memory()))
    arrived = []
    for stream, values in sides:
        with torch.cuda.stream(stream):
            arrived.append(values.to("cuda", non_blocking=True))
        last.wait_stream(stream)
    with torch.cuda.stream(last):
        (arrived[0] + arrived[1]).relu_().mul_(0.5)


def caches(save: Save) -> None:
    """A cache that grows at every step, and one that does not."""
    weight, x, new = random(4096, 4096), random(16, 4096), random(16, 8, 256, 128)
    cache = [random(16, 8, 1024, 128)]

    def step(grows: bool) -> None:
        if grows:
            cache[0] = torch.cat((cache[0], new), 2)
        query = (x @ weight).view(16, 32, 1, 128)
        y = F.scaled_dot_product_attention(query, cache[0], cache[0], enable_gqa=True)
        _ = y.view(16, 4096) @ weight

    save("steps_steady_cache", partial(step, False), "generate", 10)
    save("steps_drift_growing_cache", partial(step, True), "generate", 10)


def masks(save: Save) -> None:
    """Pointwise ops on one shape, with whole masks and with one that is broadcast."""
    x = random(64, 12, 512, 512)
    whole, causal = x > 0, torch.ones(512, 512, device="cuda", dtype=torch.bool).tril()
    calls = (
        lambda: x * x,
        lambda: x * whole,
        lambda: x.masked_fill(whole, -1.0),
        lambda: torch.where(whole, x, -1.0),
        lambda: x.masked_fill(causal, -1.0),
    )
    save("masked_fill_and_mul", lambda: [call() for call in calls], "mask")


def graphs(save: Save) -> None:
    """A graph that every step captures, and a host that is far ahead."""
    x, large = random(64, 1024), random(8192, 8192)
    save(
        "graph_capture_in_steps", lambda: captured(lambda: x @ x.t()).replay(), "capture_and_replay"
    )
    save("host_far_ahead", lambda: [large @ large for _ in range(20)], "products")


def triage(save: Save) -> None:
    """Dispatch, small kernels or one large kernel, and what compiling does to each."""
    layers = [nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU()) for _ in range(6)]
    small, norm = nn.Sequential(*layers).to("cuda", torch.bfloat16), RMSNorm(2048).cuda()
    few, many, weight, large = (
        random(8, 256),
        random(16384, 2048),
        random(2048, 2048),
        random(8192, 8192),
    )

    def pointwise() -> Tensor:
        y = norm(many)
        y = F.gelu((F.silu(y) * y + many) * 1.5 + 0.5) - many
        return (y.to(weight.dtype) @ weight).clamp(-1, 1).mul(2).add(1)

    calls = {
        "dispatch": lambda: small(few),
        "pointwise": pointwise,
        "large_kernel": lambda: F.relu(large @ large),
    }
    for name, body in calls.items():
        call = without_gradients(body)
        save(f"triage_{name}_eager", call, "forward")
        save(f"triage_{name}_compiled", compiled(call), "forward")
    graph = compiled(without_gradients(calls["dispatch"]), mode="reduce-overhead")
    save("triage_dispatch_graph", graph, "forward")


WORKLOADS = (
    decode,
    attention,
    causal_masks,
    epilogues,
    gradients,
    streams,
    caches,
    masks,
    graphs,
    triage,
)


def main() -> None:
    """Record the workloads named, or all."""
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for workload in WORKLOADS:
        if not names or workload.__name__ in names:
            workload(partial(record, Path(folder)))


if __name__ == "__main__":
    main()
