"""Which rows of a file of templates are variations of the same base template?

Base templates are what intervals are made by: 36 ways to say "I took it after I had it" are one fact about a model, not
36. A file of another group often lists variations without saying of what. Two rows belong together if

- they have the same clauses, in any order, where a clause is seen through its slots and its cues ("before", "not",
  "because"; lexicons/cues.yaml): another cue or another order within a clause makes another sentence, and
- their words are much the same (average linkage on the share of common words), and they are not rows that only ever
  differ in two clauses at once;
- or they share a whole clause that stands with no others, and most of their words: `It gives me cramps. I hate it` and
  `I have cramps from it. I hate it`.

In doubt rows are put together, which makes intervals wider, never narrower.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from palpate.files import read_resource

FARTHEST = 0.5
"""Groups whose rows have, on average, less than half of their words in common stay apart."""
MOSTLY = 0.7
"""The share of common words that joins rows with a clause of their own."""
SHORT = 4
"""A clause with fewer words ("for me") is no clause that rows could share."""

_CLAUSE_END = re.compile(r"[.!?;,:]+(?:\s+|$)")
_WORD = re.compile(r"\{[^}]*\}|[\w'’]+")

Clause = tuple[str, ...]
Floats = NDArray[np.float64]


def group_variations(texts: Sequence[str], apart: Sequence[Hashable]) -> list[int]:
    """The base template of each text, numbered from 0 in order of appearance.

    Texts with different values in `apart` (capability, test, label) are never variations of each other.
    """
    clauses = [clauses_of(text) for text in texts]
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, place in enumerate(apart):
        rows[place].append(row)
    groups = list(range(len(texts)))
    for members in rows.values():
        kinds: dict[Hashable, list[int]] = defaultdict(list)
        parts = _parts(members, clauses)
        # Sorted, so that ties between equal distances fall alike whatever the order of the rows.
        for row in sorted(members, key=texts.__getitem__):
            kinds[_frame(clauses[row])].append(row)
        for alike in kinds.values():
            _join_alike(alike, clauses, parts, groups)
        _join_by_clause(members, clauses, groups)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


def nearest_bases(texts: Sequence[str], apart: Sequence[Hashable], bases: Sequence[tuple[Hashable, str]]) -> list[int]:
    """For each text the base template with the most words in common, or -1 where none has its slots.

    A base is given as (`apart`, text) and only takes texts with the same `apart` and the same slots.
    """
    split = [clauses_of(text) for _, text in bases]
    found = []
    for text, place in zip(texts, apart, strict=True):
        mine = clauses_of(text)
        fits = [k for k, (other, _) in enumerate(bases) if other == place and _slots(split[k]) == _slots(mine)]
        scores = [_likeness(mine, split[k]) for k in fits]
        found.append(fits[int(np.argmax(scores))] if fits else -1)
    return found


def clauses_of(text: str) -> tuple[Clause, ...]:
    """The clauses of a template in small letters, without the connectives that they begin with."""
    found = []
    for part in _CLAUSE_END.split(text.lower()):
        words = _WORD.findall(part)
        while words and words[0] in _connectives():
            words = words[1:]
        if words:
            found.append(tuple(words))
    return tuple(found)


@cache
def _connectives() -> frozenset[str]:
    return frozenset(read_resource("palpate.perturb.suites", "lexicons/cues.yaml")["connectives"])


@cache
def _cues() -> frozenset[str]:
    listed = read_resource("palpate.perturb.suites", "lexicons/cues.yaml")["cues"]
    # YAML reads an unquoted `no` as false.
    return frozenset("no" if word is False else str(word) for words in listed.values() for word in words)


def _cue(word: str) -> str | None:
    """A slot or a cue as it is in a frame; None for any other word."""
    if word.endswith(("n't", "n’t")) or word == "cannot":
        return "not"
    return word if word.startswith("{") or word in _cues() else None


def _frame(clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """The slots and cues of each clause, clauses in a fixed order; a clause without any is left out."""
    seen = (tuple(cue for cue in map(_cue, clause) if cue) for clause in clauses)
    return tuple(sorted(filter(None, seen)))


def _slots(clauses: Sequence[Clause]) -> set[str]:
    return {word for clause in clauses for word in clause if word.startswith("{")}


def _likeness(clauses: Sequence[Clause], base: Sequence[Clause]) -> float:
    """How alike two templates are: the share of common words, and more where slots and cues agree."""
    first, second = ([word for clause in each for word in clause] for each in (clauses, base))
    same = float(_frame(clauses) == _frame(base))
    order = float([w for w in first if w.startswith("{")] == [w for w in second if w.startswith("{")])
    return 0.3 * same + 0.15 * order + float(_common([first, second])[0, 1])


def _common(words: Sequence[Sequence[str]]) -> Floats:
    """[text, text] the share of common words (Dice), each counted as often as it occurs."""
    place: dict[str, int] = {}
    for text in words:
        for word in text:
            place.setdefault(word, len(place))
    counts = np.zeros((len(words), len(place)))
    for row, text in enumerate(words):
        for word, n in Counter(text).items():
            counts[row, place[word]] = n
    shared = np.array([np.minimum(counts, mine).sum(axis=1) for mine in counts])
    total = counts.sum(axis=1)
    return np.asarray(2 * shared / np.maximum(total[:, None] + total[None, :], 1.0))


def _words(rows: Sequence[int], clauses: Sequence[Sequence[Clause]]) -> list[list[str]]:
    return [[word for clause in clauses[row] for word in clause] for row in rows]


def _join_alike(
    rows: Sequence[int], clauses: Sequence[Sequence[Clause]], parts: Mapping[int, int], groups: list[int]
) -> None:
    """Put rows of the same frame together whose words are much the same and that are of one part."""
    if len(rows) == 1:
        return
    distance = 1 - _common(_words(rows, clauses))
    np.fill_diagonal(distance, 0.0)
    found = fcluster(linkage(squareform(distance, checks=False), "average"), FARTHEST, "distance")
    first: dict[tuple[int, int], int] = {}
    for row, cluster in zip(rows, found.tolist(), strict=True):
        groups[row] = first.setdefault((cluster, parts[row]), row)


def _parts(rows: Sequence[int], clauses: Sequence[Sequence[Clause]]) -> dict[int, int]:
    """The part of each row: rows are of one part if changes of one clause at a time lead from one to the other.

    Alternatives within a template are free of each other, so each is seen to change alone. Rows that differ in two
    clauses whenever they differ ("I lost weight. I wanted to lose it", "I gained weight. I wanted to gain it") are two
    templates. A row that is a part of its own shows nothing of what changes alone: such rows share one part, so that
    their words decide.
    """
    seen: dict[tuple[Clause, ...], int] = {}
    parent = {row: row for row in rows}

    def root(row: int) -> int:
        while parent[row] != row:
            row = parent[row]
        return row

    for row in rows:
        long = sorted(clause for clause in clauses[row] if len(clause) >= SHORT or _frame([clause]))
        for left_out in range(len(long)):
            rest = (*long[:left_out], *long[left_out + 1 :], (str(len(long)),))
            parent[root(row)] = root(seen.setdefault(rest, row))
    sizes = Counter(map(root, rows))
    return {row: root(row) if sizes[root(row)] > 1 else -1 for row in rows}


def _join_by_clause(rows: Sequence[int], clauses: Sequence[Sequence[Clause]], groups: list[int]) -> None:
    """Join groups that share a clause whose partners occur with it only, as far as their words are mostly the same.

    Where both sides recur with others (openings × endings), neither is what the rows are about.
    """
    where: dict[Clause, set[int]] = defaultdict(set)
    for row in rows:
        for clause in clauses[row]:
            if len(clause) >= SHORT:
                where[clause].add(row)
    for sharing in where.values():
        partners = {clause for row in sharing for clause in clauses[row] if len(clause) >= SHORT}
        if len({groups[row] for row in sharing}) < 2 or any(not where[clause] <= sharing for clause in partners):
            continue
        members = sorted(sharing)
        for a, b in zip(*np.nonzero(_common(_words(members, clauses)) >= MOSTLY), strict=True):
            old, new = sorted((groups[members[int(a)]], groups[members[int(b)]]), reverse=True)
            if old != new:
                groups[:] = [new if group == old else group for group in groups]
