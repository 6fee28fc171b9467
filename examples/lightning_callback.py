"""The same fit, with a trace kept from inside."""

import lightning
from lightning_fit import fit

import foretrace


class EachStep(lightning.Callback):
    def __init__(self, prof):
        self.prof = prof

    def on_train_batch_end(self, *_):
        self.prof.step()


with foretrace.capture("traces/inside", steps=3, region="train_step") as prof:
    fit(callbacks=[EachStep(prof)])
