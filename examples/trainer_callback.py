"""The same training, with a trace kept from inside."""

from trainer import make
from transformers import TrainerCallback

import foretrace


class EachStep(TrainerCallback):
    def __init__(self, prof):
        self.prof = prof

    def on_step_end(self, args, state, control, **kwargs):
        self.prof.step()


trainer = make()
with foretrace.capture("traces/inside", steps=3, region="train_step") as prof:
    trainer.add_callback(EachStep(prof))
    trainer.train()
