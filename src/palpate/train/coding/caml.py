"""`palpate train caml`: one convolution and label-wise attention (Mullenbach et al., 2018; evidence paper, Table 9)."""

from __future__ import annotations

from palpate.train.coding import LIMITS, check, fit, read_codes
from palpate.train.coding.options import CamlOptions
from palpate.train.options import Kind

KIND = Kind(
    what="CAML: one convolution over the words of a note, and for each label an attention over them.",
    options=CamlOptions,
    fit=fit,
    check=check,
    packages=("torch", "safetensors"),
    limits=LIMITS,
    read=read_codes,
)
