"""FlashInfer: literal names such as `flashinfer::norm::FusedAddRMSNormKernel<…>`."""

from __future__ import annotations

from foretrace.families._words import library

FAMILY = library("flashinfer", "FlashInfer", states="lib dtype")
