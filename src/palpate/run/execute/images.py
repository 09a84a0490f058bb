"""Images in a run: that each is there before anything is scored, and what stands for it in the cache.

The key of an image is a hash of its file. So a picture that is changed is another input, one that is moved is the same,
and two cases with the same picture are one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from palpate.cases.cohort import Cohort
from palpate.cases.hashing import KEY_BYTES
from palpate.errors import ConfigError
from palpate.models.protocol import Model
from palpate.results import Plan

_BLOCK = 1 << 20


def image_keys(files: Sequence[str]) -> list[bytes]:
    """A key for each file; a file that is named twice is read once."""
    distinct = list(dict.fromkeys(files))
    with ThreadPoolExecutor() as pool:
        known = dict(zip(distinct, pool.map(_key, distinct), strict=True))
    return [known[file] for file in files]


def _key(file: str) -> bytes:
    digest = hashlib.blake2b(b"image", digest_size=KEY_BYTES)
    with Path(file).open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.digest()


def seen_cohort(cohort: Cohort, models: Iterable[Model]) -> Cohort:
    """The cases that all models can answer: where one reads images, those with one there; a fact tells the rest."""
    return cohort.with_images() if cohort.has_images and any(model.reads == "image" for model in models) else cohort


def check_images(model: str, cohort: Cohort, plans: Mapping[str, Plan]) -> None:
    """Refuse what a model that reads images can't answer: no images, altered texts."""
    if not cohort.has_images:
        raise ConfigError(f"model '{model}' reads images, but the cohort has none", hint="set `image:` of the cohort")
    for name, plan in plans.items():
        variants = plan.variants
        if variants.n_edits.any() or (variants.parent >= len(cohort)).any():
            raise ConfigError(
                f"model '{model}' reads images, and the audit '{name}' alters texts",
                hint="leave one of them out, or give the model a configuration of its own",
            )
