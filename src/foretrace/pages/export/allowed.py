"""What a copy for others may say: names that PyTorch, CUDA and their libraries gave. Every other
text becomes a hash.

The list is of whole names (`public_names.toml`, written by `tools/public_names.py`): ops of public
namespaces, autograd nodes, calls of CUDA, optimizers, regions that torch itself records. A kernel
stays where a family decodes it and every word of it is one of kernels; of an Inductor kernel the
words of ops stay. The same text has the same hash inside one run. A secret of the run goes into it,
and is lost when the run ends: nobody can confirm a guess.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any

from foretrace.base.patterns import regex
from foretrace.base.private import hide_secrets, words
from foretrace.work import families
from foretrace.work.families._cpp import identifiers

# Families of kernel names that anybody may give: a function of the user, a call, generated code.
USERS = words("""
    unknown user_triton inductor_triton inductor_cpp memcpy_memset runtime_api driver_api xpu_api
    compile_rows
""")
COLLECTIVES = words("""
    allreduce all_reduce allreduce_coalesced all_gather allgather _all_gather_base _allgather_base
    all_gather_into_tensor all_gather_into_tensor_coalesced allgather_into_tensor_coalesced
    reduce_scatter _reduce_scatter_base reduce_scatter_tensor reduce_scatter_tensor_coalesced
    all_to_all all_to_allv alltoall alltoall_base broadcast _broadcast_oop reduce _reduce_oop gather
    scatter send recv barrier coalesced wait init
""")
DTYPES = words("""
    Float Half BFloat16 Double Byte Char Short Int Long Bool UInt16 UInt32 UInt64 ComplexFloat
    ComplexDouble ComplexHalf Float8_e4m3fn Float8_e4m3fnuz Float8_e5m2 Float8_e5m2fnuz
    Float8_e8m0fnu Float4_e2m1fn_x2
""")
_TYPES = words("""
    float double int bool char long short Scalar ScalarList TensorList GenericList Tensor Device
    Generator Stream String
    c10::Half c10::BFloat16 c10::complex<float> c10::complex<double> c10::complex<c10::Half>
    c10::Float8_e4m3fn c10::Float8_e4m3fnuz c10::Float8_e5m2 c10::Float8_e5m2fnuz
    c10::Float8_e8m0fnu c10::Float4_e2m1fn_x2
""")
TYPES = _TYPES | {"long int", "short int", "unsigned char", "signed char", "unsigned short"}
TYPES |= {"unsigned int", "unsigned long", "nullptr (uninitialized)", ""}
SYNCS = frozenset(("Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"))
# Regions, ops and overheads that torch, its profiler and two servers record.
_FORMS = regex(
    r"""ProfilerStep\#\d{1,6}|PyTorch[ ]Profiler[ ]\(0\)|record_param_comms|ac2g|fwdbwd
    |Torch-Compiled[ ]Region:[ ]\d{1,4}/\d{1,3}(?:_\d{1,2})?|TorchDynamo[ ]Cache[ ]Lookup
    |AOTDispatcher[ ]Runtime[ ]Wrapper[ ]Prologue|Pregraph[ ]bytecode|CompiledFunction(?:Backward)?
    |torch::autograd::(?:AccumulateGrad|CopySlices|GraphRoot)
    |\#\#[ ]Call[ ]CompiledFxGraph[ ]f[a-z2-7]{51}[ ]\#\#  # a hash of the graph's code
    |enumerate\(DataLoader\)\#_(?:SingleProcess|MultiProcessing)DataLoaderIter\.__next__
    |(?:DataParallel|DistributedDataParallel)\.forward
    |(?:Activity[ ]Buffer[ ]Request|Buffer[ ]Flush|Instrumentation|Resource|Command[ ]Buffer[ ]Full
      |Lazy[ ]Function[ ]Loading|Runtime[ ]Triggered[ ]Module[ ]Loading|Unrecognized|INVALID
      |<(?:for|back)ward[ ]op>)
    |(?:Event|Stream|Context)[ ]Sync(?:hronize)?|Stream[ ]Wait[ ]Event
    |Memcpy[ ][HDPA]to[HDPA](?:[ ]\((?:SIDE)[ ]->[ ](?:SIDE)\))?|Memset(?:[ ]\((?:SIDE)\))?
    |execute_(?:\d{1,6}_)?context_\d{1,6}\(SUMS\)_generation_\d{1,6}\(SUMS\)  # of vLLM
    |step\[(?:DECODE|EXTEND|MIXED)[ ]bs=\d{1,6}(?:[ ]toks=\d{1,7})?  # of SGLang
        (?:[ ][cg](?:_s[qk]|_sqs[qk])?=\d{1,18}){0,10}(?:[ ]forward_id=\d{1,9})?\]
    """.replace(
        "SUMS", r"(?:\d{1,7}(?:_\d{1,7})?|sq\d{1,15}sk\d{1,15}sqsq\d{1,18}sqsk\d{1,18})"
    ).replace("SIDE", "Device|Host|Pinned|Pageable|Array|Managed|Unified|Unknown"),
    re.VERBOSE,
)
_PREFIX = "autograd::engine::evaluate_function: "
_STEP, _STEPS = regex(r"ProfilerStep#(\d{7,15})"), 1_000_000
_OPTIMIZER = regex(r"Optimizer\.(step|zero_grad)#(\w{1,32})\.\1")
_MODULE = regex(r"nn\.Module: (\w{1,64})_\d{1,5}")
_COLLECTIVE = regex(r"(?:nccl|rccl|gloo|mpi|ucc|xccl|hccl):(\w{1,64})(?: \d{1,5}->\d{1,5})?")
_NODE = regex(
    r"(\w{1,80}?)Backward(?:AutogradNestedTensor|AutogradCUDA)?\d{0,2}(?:Scalar|List|Tensor){0,2}"
)
_CALL = regex(r"(cuda|cu|hip)([A-Z]\w{0,80}?)(?:_v\d{1,5}|_R\d{4}|_pt[sd][sz])*+")
_HIP = words("""
    ExtLaunchKernel ExtModuleLaunchKernel ModuleLaunchKernel MemcpyWithStream LaunchByPtr
    GetDevicePropertiesR0600
""")
_INDUCTOR = regex(
    r"((?:triton_(?:poi|red|per|for|tem|unk|split_scan)|cpp)_fused)(?:_([a-z_]\w*?))?(_\d{1,4})?"
)
# What joins the words of a kernel's name; neither a path nor an address has these alone.
_JOINED = regex(r"(?:\w|[ :<>,.&*()\[\]{}#|=~]|->|!(?=\()|(?<!\w)-(?=\d))*+")
_NUMBERS = regex(r"\d[ .:]+\d")  # of an address or a telephone
_TELEPHONE = regex(r"(?<![A-Za-z0-9])(?:\d[^A-Za-z\d]{0,4}+){7}")
_WORD = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONG = regex(r"\d{7}")
_LONG_STRIDES = regex(r"\d{14}")  # CuTe writes all strides of a tensor as one number
_LONGEST = 1 << 14  # the longest kernel name that was recorded has 5,123 letters
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # digits would look like a number of the trace
# Words of the names of cards; a model is a letter or three and a number (H100, MI300X).
_CARD = regex(
    r"""(?i:nvidia|amd|intel|tesla|quadro|geforce|titan|rtx|gtx|instinct|radeon|pro|graphics|arc|max
    |data|center|gpu|ada|generation|laptop|super|ti|xt|xtx|vf|mig|pcie|nvl|vgpu|device|with|ddr\d
    |blackwell|hopper|grace|server|workstation|edition|sxm\d?|oam|hbm\d?e?|\d{1,4}gb|\d{1,3}g|gaudi|hpu
    |apple|m\d|ultra|tpu|v\d{1,2}[ep]?|ascend\d{0,3}[a-z]?\d?|thor|orin|jetson|agx|rx|one|die|r|v|d)
    |[A-Z]{1,3}\d{1,4}[A-Z]{0,2}|\d{1,4}[A-Z]{1,3}|gfx[0-9a-f]{3,4}""",
    re.VERBOSE,
)
# What a bare number follows: RTX 4090, Max 1550, PG509-200.
_SERIES = regex(r"(?i:rtx|gtx|rx|pro|max|titan|quadro|arc|radeon|geforce|pg\d{3})")
# What `--keep` adds, and what that means.
KEEP = {
    "names": "your own names of regions, ops, kernels and modules",
    "stacks": "Python frames, call stacks and their files",
    "inputs": "the values of arguments (numbers, texts, file names)",
}


class AllowList:
    """Names as others may see them; `keep` are words of `KEEP`."""

    def __init__(self, keep: frozenset[str] = frozenset(), salt: bytes | None = None) -> None:
        self.keep = keep
        self.hashed = dict[str, str]()
        self._salt = salt or secrets.token_bytes(16)

    def name(self, text: str) -> str:
        """The name of an op, a kernel, a call or a region."""
        if is_public(text):
            return text
        if "names" in self.keep:
            return self.kept(text)
        if step := _STEP.fullmatch(text):  # a copy without steps would say less
            return f"ProfilerStep#{int(step[1]) % _STEPS}"
        if text.startswith(_PREFIX):
            return _PREFIX + self.hash(text.removeprefix(_PREFIX))
        if fused := _INDUCTOR.fullmatch(text):
            known = _public()["op_parts"]
            parts = (each if each in known else self.hash(each) for each in fused[2].split("_"))
            return "_".join((fused[1], *parts)) + (fused[3] or "")
        if _is_decoded(text) and ("<" in text or "::" in text):
            return re.sub(r"\w+", lambda each: self._identifier(each[0]), text)
        return self.hash(text)

    def _identifier(self, text: str) -> str:
        return text if words_of(text) <= _public()["kernel_words"] else self.hash(text)

    def hash(self, text: str) -> str:
        """Ten letters that stand for a text in this run and mean nothing after it."""
        if text not in self.hashed:
            raw = text.encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(raw, key=self._salt, digest_size=5).hexdigest()
            self.hashed[text] = f"hidden_{digest.translate(_LETTERS)}"
        return self.hashed[text]

    def listed(self, texts: frozenset[str], text: Any) -> str | None:
        """A text of a field that has a list of them; None where it is not listed."""
        return str(text) if str(text) in texts else None

    def card(self, text: str) -> str:
        """The name of a card, without the words that no vendor and no model has."""
        parts = [part for part in re.split(r"[\s/().-]+", text[:256]) if part]
        known = [
            part
            for series, part in zip(["", *parts], parts, strict=False)
            if (_SERIES.fullmatch(series) if part.isdigit() else _CARD.fullmatch(part))
        ]
        return text if known == parts else " ".join(known)

    def kept(self, text: str) -> str:
        """A text that its owner chose to keep, without what looks like a key."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        return hide_secrets(text, self.hash) if len(text) <= _LONGEST else self.hash(text)


class Everything(AllowList):
    """Changes nothing: for a copy that its owner keeps."""

    def __init__(self) -> None:
        super().__init__(frozenset((*KEEP, "threads")))

    def name(self, text: str) -> str:
        """As it is."""
        return text

    kept = card = name

    def listed(self, texts: frozenset[str], text: Any) -> str | None:
        """As it is."""
        return text if isinstance(text, str) else str(text)


@cache
def _public() -> dict[str, frozenset[str]]:
    """The tables of `public_names.toml`; those of ops by `ops.NAMESPACE`."""
    text = files(__package__).joinpath("public_names.toml").read_text(encoding="utf-8")
    found = {name: frozenset(names.split()) for name, names in tomllib.loads(text).items()}
    spaces = (names for table, names in found.items() if table.startswith("ops."))
    ops = {*chain.from_iterable(spaces), *families.vocabulary()}
    found["op_parts"] = frozenset(part for op in ops for part in op.split("_"))
    found["kernel_words"] |= set(chain.from_iterable(map(words_of, ops)))
    # as autograd spells an op: UnsafeViewBackward0 is that of _unsafe_view
    found["nodes"] = frozenset(name.replace("_", "").lower() for name in found["ops.aten"])
    return found


def words_of(text: str) -> set[str]:
    """The words of an identifier in lower case, without single letters."""
    return {word.lower() for word in _WORD.findall(text) if len(word) > 1}


@lru_cache(maxsize=1 << 16)
def is_public(name: str) -> bool:
    """Whether a name has nothing of its user in it."""
    public, name = _public(), name.removeprefix(_PREFIX)
    space, _, op = name.rpartition("::")
    if _FORMS.fullmatch(name) or op in public.get(f"ops.{space or 'aten'}", ()):
        return True
    if match := _OPTIMIZER.fullmatch(name):
        return match[2] in public["optimizers"]
    if match := _MODULE.fullmatch(name):
        return match[1] in public["modules"]
    if match := _COLLECTIVE.fullmatch(name):
        return match[1] in COLLECTIVES
    if (match := _NODE.fullmatch(name)) and match[1].lower() in public["nodes"]:
        return True
    if match := _CALL.fullmatch(name):
        spelled = ("cuda", "cu") if match[1] == "hip" else (match[1],)
        return match[2] in _HIP or any(f"{each}{match[2]}" in public["calls"] for each in spelled)
    if match := _INDUCTOR.fullmatch(name):
        return match[2] is None or public["op_parts"].issuperset(match[2].split("_"))
    return _is_decoded(name) and words_of(_spelled(name)) <= public["kernel_words"]


def _spelled(name: str) -> str:
    """The identifiers of a kernel, also of one whose name is mangled."""
    if not name.startswith("_Z"):
        return name
    inside, rest = identifiers(name), name
    for each in inside:
        rest = rest.replace(f"{len(each)}{each}", " ", 1)
    return " ".join((*inside, *re.findall("(?![bcdfijlmvxy]+(?![a-z]))[a-z]{5,}", rest)))


def _is_decoded(name: str) -> bool:
    """Whether a family knows a kernel by its name, and no number in it is longer than a size."""
    long = _LONG_STRIDES if name.startswith("kernel_cutlass_") else _LONG
    return (
        len(name) <= _LONGEST
        and _JOINED.fullmatch(name) is not None
        and not (long.search(name) or _NUMBERS.search(name))
        and ("<" in name or not _TELEPHONE.search(name))
        and families.decode(name).family not in USERS
    )
