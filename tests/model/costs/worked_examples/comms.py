"""Worked examples of `foretrace.model.costs.copy`."""

from foretrace.model.costs.copy import NOTE, SENT
from worked_examples import at_least

EXAMPLES = {
    "record_param_comms(bf16[1,25136]) | dtype=BFloat16 | In msg nelems=25136 | Out msg "
    "nelems=201088": at_least(None, 50_272, 402_176, NOTE),
    "symm_mem::multimem_all_reduce_(bf16[2557440] - -)": at_least(None, 5_114_880, 5_114_880, NOTE),
    # before torch 2.1 the record has the tensor alone
    "record_param_comms(u8[339738624] ? ? ? - - -)": at_least(None, 339_738_624, None, SENT),
    "c10d::_allgather_base_(bf16[201088] bf16[25136] -)": at_least(None, 50_272, 402_176, NOTE),
    "_C_custom_ar::all_reduce(? bf16[1024] bf16[1024] ? ?)": at_least(None, 2048, 2048, NOTE),
}
