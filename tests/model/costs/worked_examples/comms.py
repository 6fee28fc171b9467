"""Worked examples of `foretrace.model.costs.comms`."""

from foretrace.model.costs.comms import NOTE
from worked_examples import at_least

EXAMPLES = {
    "record_param_comms(bf16[1,25136]) | dtype=BFloat16 | In msg nelems=25136 | Out msg "
    "nelems=201088": at_least(None, 50_272, 402_176, NOTE),
    "symm_mem::multimem_all_reduce_(bf16[2557440] - -)": at_least(None, 5_114_880, 5_114_880, NOTE),
}
