"""Any string is a name: decoding never raises, always answers the same, and its parts are pieces of
the name.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from foretrace.work import families
from foretrace.work.families._parser import split_ops
from sweep import examples
from work.families.test_contract import check
from work.families.test_reference import MORE, REFERENCE

KNOWN = [row["name"] for row in (*REFERENCE, *MORE)]
PIECES = sorted(
    {
        piece
        for name in KNOWN
        for piece in name.replace("<", " < ").replace("_", " _ ").split()
        if len(piece) < 40
    }
)


@st.composite
def names_like_real_ones(draw: st.DrawFn) -> str:
    """Real pieces in a new order, with a real beginning, so that the decoders get past their first
    test.
    """
    start = draw(st.sampled_from(KNOWN))
    kept = start[: draw(st.integers(0, len(start)))]
    return kept + "".join(draw(st.lists(st.sampled_from(PIECES), max_size=12)))


@st.composite
def damaged_names(draw: st.DrawFn) -> str:
    """A real name with one piece replaced by anything."""
    name = draw(st.sampled_from(KNOWN))
    start = draw(st.integers(0, len(name)))
    end = draw(st.integers(start, min(len(name), start + 20)))
    return name[:start] + draw(st.text(max_size=8)) + name[end:]


def _holds(name: str) -> None:
    families.decode.cache_clear()
    first = families.decode(name)
    if name:
        check(first)
    families.decode.cache_clear()
    assert families.decode(name) == first
    for family in families.every():  # decoders themselves must not rely on being guarded
        family.decode(name)


@settings(max_examples=examples(300))
@given(names_like_real_ones())
@example(
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "vllm::const::{lambda(bool,"
)
def test_names_like_real_ones(name: str) -> None:
    _holds(name)


@settings(max_examples=examples(300))
@given(damaged_names())
def test_damaged_names(name: str) -> None:
    _holds(name)


@settings(max_examples=examples(200))
@given(st.text(alphabet=st.characters(codec=None, categories=None), max_size=80))
def test_any_text(name: str) -> None:
    _holds(name)


@settings(max_examples=examples(200))
@given(st.text(alphabet="_ZNISELT0123456789abcdixJPDF", max_size=120))
def test_any_mangled_name(tail: str) -> None:
    for head in (
        "_Z",
        "_ZN2ck",
        "_ZN7ck_tile",
        "_ZN5aiter",
        "_ZN2at6native",
        "_ZN19cutlass_cudnn_train6KernelI",
    ):
        _holds(head + tail)


@settings(max_examples=examples(200))
@given(st.sets(st.sampled_from(sorted(families.vocabulary())), min_size=1, max_size=12))
def test_splitting_undoes_joining(ops: set[str]) -> None:
    """Some lists are ambiguous by nature (`index_select_scatter`); then the pieces still join to
    the same text.
    """
    text = "_".join(sorted(ops))
    split = list(split_ops(text))
    assert "_".join(split) == text
    assert len(split) <= len(ops) or split == sorted(ops)


LONG = 100_000


LONG_NAMES = [
    "a" * LONG,
    "void a" + "<" * LONG,
    "(" * LONG,
    "({<" * (LONG // 3),
    "_" * LONG,
    "void " + " " * LONG,
    "triton_poi_fused_" + "add_" * (LONG // 4) + "0",
    "triton_poi_fused_" + "foo_" * (LONG // 4) + "0",
    "triton_poi_fused_" + "_" * LONG,
    "nvjet_tst_64x64_64x16_2x1_" + "a_" * (LONG // 2) + "TNT",
    "nvjet_tst_" + "9" * LONG + "x1_1x1_1x1_TNT",
    "_ZN" + "1a" * (LONG // 2),
    "_Z" + "9" * LONG,
    "_ZN2ck" + "LN" * (LONG // 2),
    "void at::native::vectorized_elementwise_kernel<" + "a<" * (LONG // 2),
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<" + "float, " * (LONG // 7),
    "Cijk_Alik_Bljk_" + "B_" * (LONG // 2) + "MT1x1x1",
    "sm80_xmma_gemm_" + "f32" * (LONG // 3),
    "cudnn_generated_" + "a_" * (LONG // 2),
    "(anonymous namespace)::" * (LONG // 23),
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<"
    + "cute::tuple<" * (LONG // 12),
    "\x1b[31m\u202e" * (LONG // 6),
    "\ud800" * LONG,
    "igemm_fwd_gtcx2_n" + "a" * LONG,
]


def test_a_hundred_thousand_characters() -> None:
    """Linear: the hang guard of the suite is what would fail here."""
    for name in LONG_NAMES:
        kernel = families.decode(name)
        assert kernel.name == name
        assert len(kernel.short) <= 48
