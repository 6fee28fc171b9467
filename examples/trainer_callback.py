"""The same training, recorded by one line."""

from trainer import make

from foretrace.hooks import TrainerCallback

trainer = make()
trainer.add_callback(TrainerCallback("traces/inside"))
trainer.train()
