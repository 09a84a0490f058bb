"""`palpate train effective-can`: residual squeeze-and-excitation blocks under label-wise attention.

Liu et al., 2021; the base of the evidence paper's models (Section 5.1, Figures 1 and 2).
"""

from __future__ import annotations

from palpate.train.coding import LIMITS, check, fit, read_codes
from palpate.train.coding.options import EffectiveCanOptions
from palpate.train.options import Kind

KIND = Kind(
    what="EffectiveCAN: residual convolutions with gates over the words of a note, and for each label an attention "
    "over the outputs of all of them.",
    options=EffectiveCanOptions,
    fit=fit,
    check=check,
    packages=("torch", "safetensors"),
    limits=LIMITS,
    read=read_codes,
)
