"""The same fit, recorded by one line."""

from lightning_fit import fit

from foretrace.hooks import LightningCallback

fit(callbacks=[LightningCallback("traces/inside")])
