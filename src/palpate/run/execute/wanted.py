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
from palpate.cases.edits import Inputs, Ints, NamesOfRows, Variants
from palpate.cases.hashing import KEY_BYTES, ReplacementHashes, case_key, key_of, keys_of_edits
from palpate.cases.keys import KeyArray, as_keys, distinct
from palpate.errors import InputError
from palpate.models import Model
from palpate.results import Plan

_BLOCK = 1 << 20
_PARTS_AT_ONCE = 16
"""So many parts' keys are made together: the rows of a note are best together, wherever audits have put them."""


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
        keys: KeyArray = scratch.taken(self.parent_keys, self.inputs.parent)
        pieces = ReplacementHashes(self.inputs.replacements)
        for part in scratch.parts(len(self.inputs), _PARTS_AT_ONCE * scratch.AT_ONCE):
            self._hash(keys, part.start + np.flatnonzero(self.inputs.n_edits[part]), pieces)
        return keys

    def _hash(self, keys: KeyArray, edited: Ints, pieces: ReplacementHashes) -> None:
        """Put the keys of some edited rows into their places, parent by parent."""
        inputs = self.inputs
        owner = inputs.parent[edited]
        if np.any(owner[1:] < owner[:-1]):
            edited = edited[np.argsort(owner, kind="stable")]
            owner = inputs.parent[edited]
        bounds = np.flatnonzero(np.diff(owner, prepend=-1, append=-2))
        for begin, stop in pairwise(bounds.tolist()):
            rows = edited[begin:stop]
            index, first = inputs.edit_columns(rows)
            columns = inputs.start[index], inputs.end[index], inputs.replacement[index]
            keys[rows] = keys_of_edits(inputs.parents[int(owner[begin])], first, *columns, pieces)

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
        net: Ints = scratch.empty(len(inputs), np.int64)
        for part in scratch.parts(len(inputs)):
            first = inputs.first_edit[part.start : part.stop + 1]
            edits = slice(int(first[0]), int(first[-1]))
            grown = words[inputs.replacement[edits]] - (inputs.end[edits] - inputs.start[edits])
            total = np.concatenate([[0], np.cumsum(grown)])
            net[part] = length[inputs.parent[part]] + np.diff(total[first - first[0]])
        return net


def gather(cohort: Cohort, plans: Mapping[str, Plan[Any]]) -> ScoringTable:
    """All plans as one table; parents are the cohort's texts and then the made texts of each audit."""
    parents, words = list(cohort.texts), list[str]()
    case_ids, cohorts = cohort.cases["case_id"].to_list(), cohort.cases["cohort"].to_list()
    joined = _JoinedColumns(plans)
    for plan in plans.values():
        joined.add(plan.variants, len(cohort), made=len(parents) - len(cohort), words=len(words))
        words += plan.variants.replacements
        parents += plan.variants.made
    parent = joined.parent
    n_made = len(parents) - len(cohort)
    ids, names = case_ids + [""] * n_made, cohorts + [""] * n_made
    images = cohort.images + [""] * n_made if cohort.has_images else []
    inputs = Inputs(
        parent=parent,
        first_edit=joined.first_edit,
        start=joined.start,
        end=joined.end,
        replacement=joined.replacement,
        replacements=words,
        parents=parents,
        case_ids=NamesOfRows(ids, parent),
        cohorts=NamesOfRows(names, parent),
        images=NamesOfRows(images, parent) if images else (),
    )
    _check_spans(inputs)
    return ScoringTable(inputs, joined.slices, len(cohort))


class _JoinedColumns:
    """The columns of several plans one after the other; those of a single one are not copied."""

    def __init__(self, plans: Mapping[str, Plan[Any]]) -> None:
        every = [plan.variants for plan in plans.values()]
        ends = np.cumsum([0, *map(len, every)]).tolist()
        self.slices = {name: slice(*span) for name, span in zip(plans, pairwise(ends), strict=True)}
        self._rows = self._edits = 0
        if len(every) == 1:
            self._take(every[0])
            return
        n_edits = sum(len(variants.start) for variants in every)
        self.parent: Ints = scratch.empty(ends[-1], np.int64)
        self.first_edit: Ints = scratch.empty(ends[-1] + 1, np.int64)
        self.first_edit[0] = 0
        self.start, self.end, self.replacement = (scratch.empty(n_edits, np.int64) for _ in range(3))

    def _take(self, variants: Variants) -> None:
        """Those of a single plan."""
        self.parent, self.first_edit = variants.parent.astype(np.int64, copy=False), variants.first_edit
        self.start, self.end, self.replacement = variants.start, variants.end, variants.replacement

    def add(self, variants: Variants, n_cases: int, *, made: int, words: int) -> None:
        """Add a plan; so many made texts and replacements come before its own."""
        if len(self.slices) == 1:
            return
        rows = slice(self._rows, self._rows + len(variants))
        edits = slice(self._edits, self._edits + len(variants.start))
        self.parent[rows] = variants.parent
        np.add(self.parent[rows], made, out=self.parent[rows], where=variants.parent >= n_cases)
        np.add(variants.first_edit[1:], self._edits, out=self.first_edit[rows.start + 1 : rows.stop + 1])
        self.start[edits], self.end[edits] = variants.start, variants.end
        np.add(variants.replacement, words, out=self.replacement[edits])
        self._rows, self._edits = rows.stop, edits.stop


def _check_spans(inputs: Inputs) -> None:
    """Refuse an edit past the end of its text, an error of the audit, before anything is scored."""
    length = np.fromiter(map(len, inputs.parents), np.int64, count=len(inputs.parents))
    for part in scratch.parts(len(inputs)):
        first = inputs.first_edit[part.start : part.stop + 1]
        past = inputs.end[first[0] : first[-1]] > np.repeat(length[inputs.parent[part]], np.diff(first))
        if past.any():
            row = int(np.searchsorted(inputs.first_edit, first[0] + np.argmax(past), side="right")) - 1
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
    n_characters = scratch.taken(asked.n_characters, rows)
    by = scratch.taken(inputs.parent, rows) if model.uses_edits else n_characters
    order = scratch.stored(np.argsort(by, kind="stable"))
    return Wanted(inputs, scratch.taken(keys, rows), rows, code, seen, order, n_characters)


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
