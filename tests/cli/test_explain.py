"""`foretrace explain`: words of every kind; of a kernel name the contract's JSON, plain words for
people, and nothing that acts on a terminal.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from foretrace.cli import main
from foretrace.cli.explain import command
from foretrace.look.steering import known_names

NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"


def run(*arguments: str, stdin: bytes | None = None) -> str:
    result = CliRunner().invoke(command, arguments, input=stdin, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_document_of_the_contract() -> None:
    document = json.loads(run(NVJET, "--json"))
    assert list(document) == ["schema", "name", "short", "family", "role", "fields", "parts"]
    assert document["schema"] == 1
    assert (document["name"], document["family"], document["role"]) == (NVJET, "nvjet", "gemm")
    assert document["fields"]["layout"] == "tn"
    assert document["fields"]["tile"] == [256, 128, 64]
    assert [set(part) for part in document["parts"]] == [
        {"text", "field", "meaning", "certainty"}
    ] * len(document["parts"])


@pytest.mark.parametrize(
    "name", [NVJET, f"void {'at::native::kernel<float, ' * 30}int>", f"void {'x' * 90} {'y' * 90}"]
)
def test_plain_words_fit_a_terminal(name: str) -> None:
    text = run(name, "--gpu", "H200")
    assert max(map(len, text.splitlines())) <= 100
    assert name[:5] in text.splitlines()[0]
    if name == NVJET:
        assert "nvjet 256x128x64 tn bf16 bias · family nvjet · role gemm" in text
        assert "x @ W.t(), what F.linear runs forward" in " ".join(text.split())
        lines = text.splitlines()
        (at,) = [at for at, line in enumerate(lines) if "first letter, the weight" in line]
        # a long meaning goes on below itself
        assert lines[at + 1].startswith(" " * lines[at].index("first letter"))
    # a name without a blank stays in one piece
    assert run(f"void {'x' * 150}").splitlines()[:2] == ["void", "x" * 150]


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused__unsafe_view_gelu_mul_0",
        "triton_red_fused_sum_1",
        "cpp_fused_add_relu_3",
        "graph_1_cpp_fused_add_relu_3",
        "triton_poi_fused_fused_moving_avg_2",
    ],
)
def test_every_part_of_an_inductor_name_has_a_meaning(name: str) -> None:
    parts = json.loads(run(name, "--json"))["parts"]
    assert [part["text"] for part in parts if part["certainty"] == "unknown"] == []
    [fused] = [part for part in parts if part["text"] == "fused"]
    assert "run as one kernel" in fused["meaning"]


@pytest.mark.parametrize("card", ["A100", "nvidia a100", "sm_80", "SM80", "a100 40gb"])
def test_a_card(card: str) -> None:
    assert "this card's own generation" in run("ampere_sgemm_128x64_nn", "--gpu", card)
    assert "older than sm90 (Hopper)" in run("ampere_sgemm_128x64_nn", "--gpu", "H200")
    document = json.loads(run("ampere_sgemm_128x64_nn", "--gpu", "sm_90", "--json"))
    assert document["gpu"]["arch"] == "sm90"


def test_names_from_stdin() -> None:
    documents = json.loads(run("-", "--json", stdin=f"{NVJET}\n\nMemset (Device)\n".encode()))
    assert [document["family"] for document in documents] == ["nvjet", "memcpy_memset"]
    assert "role comms" in run("-", stdin=b"ncclDevKernel_Generic(P)\n\xff\xfe\n")


@pytest.mark.parametrize(
    "name",
    [
        "a\x1b[31mb",
        "x\u202ey",
        "a\x9b31m",
        "\u2028",
        "a\x00b",
        "x\x1b]0;y\x07 [red]z[/red]",
        "<img src=x>",
        "\ud800",
    ],
)
def test_hostile_names(name: str) -> None:
    for text in (run(name), run(name, "--json")):
        text.encode("utf-8")
        for mark in ("\x1b", "\u202e", "\x9b", "\u2028", "\x00"):
            assert mark not in text
    assert json.loads(run(name, "--json"))["name"] == name


def test_two_names() -> None:
    other = NVJET.replace("64x4", "64x3").replace("_bias", "")
    document = json.loads(run(NVJET, other, "--json"))
    assert (document["schema"], document["name"], document["family"]) == (1, NVJET, "nvjet")
    assert document["other"]["name"] == other
    assert document["changed"] == [
        {"field": "stages", "before": 4, "after": 3},
        {"field": "epilogue", "before": ["bias"], "after": None},
    ]
    text = run(NVJET, other)
    assert "2 differences, first name -> second:" in text
    assert "stages    4 -> 3" in text
    assert "epilogue  bias -> (not stated)" in text


def test_two_names_that_no_field_tells_apart() -> None:
    assert "The names are identical." in run(NVJET, NVJET)
    text = run("void frob::a(int)", "void frob::b(int)")
    assert "No decoded field differs." in text
    assert "`d frob::a(int)` and `d frob::b(int)`" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([""], "the name is empty: give a kernel's name as a trace prints it"),
        (["\t"], "the name is empty"),
        (["a", " "], "the name is empty"),
        (["-", "a"], "- reads every name from stdin"),
        (["a_kernel", "b_kernel", "c_kernel"], "3 names: give one, or two to compare"),
        (["x", "--gpu", "toaster\x1b"], "toaster\\x1b: names no single GPU"),
        (["_geglu_tanh_backward_kernel", "--in", "mlp_liger"], "mean _geglu_tanh_forward_kernel?"),
        (["sync_stall"], "nothing is named 'sync_stall'; did you mean sync_stalls"),
        (["zzzzzz"], "nothing is named 'zzzzzz'; `foretrace explain` lists the words"),
    ],
)
def test_what_cannot_be_explained_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_trace_says_how_a_kernel_was_launched() -> None:
    """Liger's block size and warps: the name says that it does not have them."""
    name = "_geglu_tanh_forward_kernel"
    assert "block size and warps are not in the name" in " ".join(run(name).split())
    said = " ".join(run(name, "--in", "mlp_liger").split())
    assert "grid 8,192, block 256 threads (8 warps), registers 48" in said
    assert "3,072 columns give BLOCK_SIZE 4,096, of which 1,024 do nothing" in said
    (launch,) = json.loads(run(name, "--in", "mlp_liger", "--json"))["launches"]
    assert (launch["warps"], launch["block_size"], launch["dims"]) == (8, 4096, [64, 128, 3072])
    fused = "triton_poi_fused__unsafe_view_gelu_mul_0"
    (other,) = json.loads(run(fused, "--in", "mlp_compiled", "--json"))["launches"]
    assert (other["warps"], other["block_size"]) == (4, None)


def test_explain_says_what_the_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "sync_stalls"]) == 0
    told = capsys.readouterr().out
    for head in ("LOOKS FOR", "MATTERS", "FIRES", "NOT KNOWN", "NEEDS", "FIX", "EXAMPLE"):
        assert f"\n{head} " in told
    assert main(["explain", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)["entries"]
    named = [each["name"] for each in every if each["kind"] in ("rule", "fix")]
    assert named == [*known_names()]
    assert {each["kind"] for each in every} == {"rule", "fix", "quantity", "document"}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("addmm", "aten::addmm (op): its kernels have the role gemm"),
        ("aten::view", "aten::view (op): changes how memory is seen"),
        ("gemm", "gemm (quantity): what a quantity is of"),
        ("waits", "waits (quantity): Stops of the host until the GPU has finished"),
        ("look", "SCHEMA foretrace docs schema look"),
        ("cuda_graph", "cuda_graph (fix): Launch a step as one CUDA graph"),
        ("gemm_kernel", "oneDNN GEMM · family xpu · role gemm"),
        ("TorchDynamo Cache Lookup", "checks the guards of each compiled version"),
        ("Torch-Compiled Region: 0/1", "frame, then compilation; above 0 it was recompiled"),
        ("cudaLaunchKernel", "puts a kernel into the queue of a stream, and returns"),
        ("cudaMemcpyAsync", "it waits where the host's memory is pageable"),
        ("cudaMemcpy", "copies, and waits for the end"),
        ("cudaDeviceSynchronize", "waits until the GPU has done"),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", "how many blocks of a kernel fit on an"),
        (
            "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8",
            "NVIDIA's open templates for matmuls",
        ),
    ],
)
def test_explain_knows_words_of_every_kind(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_word_of_several_kinds_says_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "inference_mode", "peak"]) == 0
    out = capsys.readouterr().out
    assert "inference_mode (fix)" in out
    assert "peak (quantity)" in out
    assert main(["explain", "softmax", "--json"]) == 0
    kinds = [each["kind"] for each in json.loads(capsys.readouterr().out)["entries"]]
    assert kinds == ["quantity", "op"]
