"""From the plans of all audits to the distinct inputs that one model has to score.

Three things make the list short: texts that are equal are one input, an edit that the model can't see is its
parent, and what the cache knows is not scored again. The order and the cut into calls follow from the list alone, so a
run that is resumed hands the model the very same batches, and floating point gives the very same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.cases import scratch
from palpate.cases.cohort import Cohort
from palpate.cases.columns import films
from palpate.cases.edits import Inputs, Ints, NamesOfRows
from palpate.cases.hashing import KEY_BYTES, ReplacementHashes, case_key, key_of, keys_of_edits
from palpate.cases.keys import KeyArray, as_keys, distinct
from palpate.errors import InputError
from palpate.models import Model
from palpate.results import Plan

_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class ScoringTable:
    """The variants of all audits in one table, with the texts' keys; the same for every model."""

    inputs: Inputs
    slices: Mapping[str, slice]
    """Which rows belong to which audit."""
    n_cases: int

    def take(self, rows: Ints) -> ScoringTable:
        """Some of the rows, for a model that does not score all of them."""
        return ScoringTable(self.inputs.take(rows), {}, self.n_cases)

    def rows_for(self, model: str, plans: Mapping[str, Plan[Any]], left_out: Collection[str] = ()) -> Ints | None:
        """The rows that a model scores, of some audits none; None means all."""
        if not left_out and not any(model in plan.requests.only for plan in plans.values()):
            return None
        wanted = np.ones(len(self.inputs), dtype=bool)
        for name, plan in plans.items():
            wanted[self.slices[name]] &= name not in left_out
            if model in plan.requests.only:
                wanted[self.slices[name]] &= plan.requests.only[model]
        return np.flatnonzero(wanted)

    @cached_property
    def parent_keys(self) -> KeyArray:
        """[parent] the key of every parent that is used, unedited."""
        known: dict[str, bytes] = {}  # of many cases without notes the empty text is hashed once
        used = _used(self.inputs.parent)
        keys = np.zeros((len(self.inputs.parents), 2), dtype=np.uint64)
        texts = (self.inputs.parents[p] for p in used.tolist())
        keys[used] = as_keys([known[text] if text in known else known.setdefault(text, key_of(text)) for text in texts])
        return keys

    @cached_property
    def text_keys(self) -> KeyArray:
        """The key of every row's text, computed without splicing the text."""
        inputs = self.inputs
        keys: KeyArray = scratch.taken(self.parent_keys, inputs.parent)
        edited = np.flatnonzero(inputs.n_edits)
        owner = inputs.parent[edited]
        if np.any(owner[1:] < owner[:-1]):
            edited = edited[np.argsort(owner, kind="stable")]
            owner = inputs.parent[edited]
        pieces = ReplacementHashes(inputs.replacements)
        bounds = np.flatnonzero(np.diff(owner, prepend=-1, append=-2))
        for begin, stop in pairwise(bounds.tolist()):
            rows = edited[begin:stop]
            index, first = inputs.edit_columns(rows)
            columns = inputs.start[index], inputs.end[index], inputs.replacement[index]
            keys[rows] = keys_of_edits(inputs.parents[int(owner[begin])], first, *columns, pieces)
        return keys

    @cached_property
    def case_keys(self) -> KeyArray:
        """The key of every row for models that look predictions up, if they see every edit."""
        return case_keys(self.inputs, self.text_keys)

    @cached_property
    def image_keys(self) -> KeyArray:
        """The key of every row's image."""
        return as_keys(image_keys(self.inputs.images))

    @cached_property
    def n_characters(self) -> Ints:
        """How long each row's text is."""
        inputs = self.inputs
        used = _used(inputs.parent)
        length = np.zeros(len(inputs.parents), dtype=np.int64)
        length[used] = [len(inputs.parents[p]) for p in used.tolist()]
        words = np.asarray([len(text) for text in inputs.replacements] or [0], dtype=np.int64)
        grown = words[inputs.replacement] - (inputs.end - inputs.start) if len(inputs.start) else inputs.start
        total = np.concatenate([[0], np.cumsum(grown)])
        net: Ints = length[inputs.parent] + total[inputs.first_edit[1:]] - total[inputs.first_edit[:-1]]
        return net


def gather(cohort: Cohort, plans: Mapping[str, Plan[Any]]) -> ScoringTable:
    """All plans as one table; parents are the cohort's texts and then the made texts of each audit."""
    parents = list(cohort.texts)
    case_ids, cohorts = cohort.cases["case_id"].to_list(), cohort.cases["cohort"].to_list()
    words: list[str] = []
    columns: dict[str, list[Ints]] = {name: [] for name in ("parent", "n_edits", "start", "end", "replacement")}
    slices, row = {}, 0
    for name, plan in plans.items():
        variants = plan.variants
        shift = len(parents) - len(cohort)
        made = variants.parent >= len(cohort)
        columns["parent"].append(np.where(made, variants.parent + shift, variants.parent))
        columns["n_edits"].append(variants.n_edits)
        columns["start"].append(variants.start)
        columns["end"].append(variants.end)
        columns["replacement"].append(variants.replacement + len(words))
        words += variants.replacements
        parents += variants.made
        slices[name] = slice(row, row + len(variants))
        row += len(variants)
    joined = {name: _joined(parts) for name, parts in columns.items()}
    parent, n_edits = joined["parent"], joined["n_edits"]
    n_made = len(parents) - len(cohort)
    ids, names = case_ids + [""] * n_made, cohorts + [""] * n_made
    images = cohort.images + [""] * n_made if cohort.has_images else []
    inputs = Inputs(
        parent=parent,
        first_edit=np.concatenate([[0], np.cumsum(n_edits)]).astype(np.int64),
        start=joined["start"],
        end=joined["end"],
        replacement=joined["replacement"],
        replacements=words,
        parents=parents,
        case_ids=NamesOfRows(ids, parent),
        cohorts=NamesOfRows(names, parent),
        images=NamesOfRows(images, parent) if images else (),
    )
    _check_spans(inputs)
    return ScoringTable(inputs, slices, len(cohort))


def _joined(parts: Sequence[Ints]) -> Ints:
    """Columns one after the other; a single one is not copied."""
    if len(parts) == 1:
        return parts[0].astype(np.int64, copy=False)
    column: Ints = scratch.empty(sum(map(len, parts)), np.int64)
    return np.concatenate([*parts, np.zeros(0, np.int64)], out=column)


def _check_spans(inputs: Inputs) -> None:
    """Refuse an edit past the end of its text, an error of the audit, before anything is scored."""
    length = np.fromiter(map(len, inputs.parents), np.int64, count=len(inputs.parents))
    past = inputs.end > np.repeat(length[inputs.parent], inputs.n_edits)
    if past.any():
        row = int(np.searchsorted(inputs.first_edit, np.argmax(past), side="right")) - 1
        raise InputError(f"an edit of case '{inputs.case_ids[row]}' ends past the end of its text")


@dataclass(frozen=True, eq=False)
class Wanted:
    """The distinct inputs for one model: `rows[k]` stands for all rows whose `distinct` is k."""

    inputs: Inputs
    keys: KeyArray
    rows: Ints
    distinct: Ints
    seen: NDArray[np.bool_]
    order: Ints
    """Positions in `keys` in the order in which the model scores them."""
    n_characters: Ints
    """How long each text is, by its position in `keys`."""

    def take(self, positions: Ints) -> Inputs:
        """The inputs at some positions of `keys`."""
        return self.inputs.take(self.rows[positions])


def want(asked: ScoringTable, model: Model) -> Wanted:
    """What this model has to score."""
    seen = _seen(asked, model)
    keys = asked.text_keys
    if not seen.all():
        keys = scratch.taken(keys, np.arange(len(keys)))
        keys[~seen] = asked.parent_keys[asked.inputs.parent[~seen]]
    inputs = asked.inputs if seen.all() else asked.inputs.without_edits(~seen)
    if model.reads == "image":
        keys = asked.image_keys
    elif model.reads == "case" or model.draws:
        keys = asked.case_keys if seen.all() else case_keys(inputs, keys)
    rows, code = distinct(keys)
    n_characters = asked.n_characters[rows]
    by = inputs.parent[rows] if model.uses_edits else n_characters
    return Wanted(inputs, scratch.taken(keys, rows), rows, code, seen, np.argsort(by, kind="stable"), n_characters)


def _seen(asked: ScoringTable, model: Model) -> NDArray[np.bool_]:
    """False for rows whose edits all start after what the model reads."""
    inputs = asked.inputs
    n_edits = inputs.n_edits
    seen = np.ones(len(inputs), dtype=bool)
    if model.window is None or not n_edits.any():
        return seen
    used = np.unique(inputs.parent[n_edits > 0])
    ends = np.zeros(len(inputs.parents), dtype=np.int64)
    for begin in range(0, len(used), 1024):
        part = used[begin : begin + 1024]
        ends[part] = model.visible_ends([inputs.parents[int(p)] for p in part])
    edited = np.flatnonzero(n_edits)
    first = inputs.start[inputs.first_edit[edited]]
    seen[edited] = first < ends[inputs.parent[edited]]
    return seen


def _used(parent: Ints) -> Ints:
    """The parents that occur, in order."""
    return np.flatnonzero(np.bincount(parent)).astype(np.int64)


def case_keys(inputs: Inputs, keys: KeyArray) -> KeyArray:
    """For models that look predictions up by case: equal texts of two cases are two inputs.

    The rows of a case that are not edited have one key, which is made once however many audits ask for the case.
    """
    edited = inputs.n_edits > 0
    plain = np.flatnonzero(~edited)
    _, first, place = np.unique(inputs.parent[plain], return_index=True, return_inverse=True)
    rows = np.concatenate([plain[first], np.flatnonzero(edited)])
    words = keys.astype("<u8", copy=False)
    made = as_keys([case_key(inputs.cohorts[r], inputs.case_ids[r], words[r].tobytes()) for r in rows.tolist()])
    found = np.empty_like(keys)
    found[plain], found[edited] = made[place], made[len(first) :]
    return found


def image_keys(files: Sequence[str]) -> list[bytes]:
    """A key for each image, a hash of its file, so that a changed picture is a new input and a moved one is not.

    A file that is named twice is read once. Several films of a case are one input.
    """
    distinct = list(dict.fromkeys(film for image in files for film in films(image)))
    with ThreadPoolExecutor() as pool:
        known = dict(zip(distinct, pool.map(_image_key, distinct), strict=True))
    return [_study_key([known[film] for film in films(image)]) for image in files]


def _study_key(keys: Sequence[bytes]) -> bytes:
    """One key for one or several films, in their order."""
    return keys[0] if len(keys) == 1 else hashlib.blake2b(b"".join(keys), digest_size=KEY_BYTES).digest()


def _image_key(file: str) -> bytes:
    digest = hashlib.blake2b(b"image", digest_size=KEY_BYTES)
    with Path(file).open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.digest()
