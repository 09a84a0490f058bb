"""The data checks themselves: a cohort in, counts out. No model is asked, and no text is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.cases.cohort import ALONE, Cohort
from palpate.cases.duplicates import KnownTexts, Sketches, Wording, first_identical, sketch
from palpate.cases.edits import Ints
from palpate.stats.precision import n_distinct

TRAINED_ON = ("train", "validation")
"""Splits that a model has seen: to learn from, or to choose its settings and threshold by."""
FEWEST_WORDS = 3
"""Notes with fewer words ("normal") are not compared at all: they repeat by nature."""
IN_ORDER = 0.75
"""A table in which at least this share of the patients' successive rows go forward in time claims to be in order; of
rows in any order, half do."""
NOTHING_TO_COMPARE = "the table holds no training case to compare with"


class Found(NamedTuple):
    """How many of those that were looked at."""

    n: int
    of: int
    reason: str | None = None
    """Why it could not be counted, if it could not."""
    limit: str | None = None
    """Why a low count does not reassure, if it does not."""

    @property
    def share(self) -> float | None:
        """None where there was nothing to look at."""
        return self.n / self.of if self.of and self.reason is None else None


class Duplicates(NamedTuple):
    """When two notes count as the same."""

    similarity: float
    fewest_words: int
    """Of nearly identical notes; shorter ones are compared word for word only."""

    @property
    def fewest_at_all(self) -> int:
        """Shorter notes are not compared."""
        return min(FEWEST_WORDS, self.fewest_words)


class Order(NamedTuple):
    """How the times of audited and training cases lie to each other."""

    n_audited: int
    """Cases with a time."""
    n_training: int
    share: float | None = None
    """Of the pairs of an audited and a training case, those in which the audited one is earlier; ties count half."""
    by_chance: tuple[float, float] = (0.0, 1.0)
    """Between which shares a random split of the patients lies, 19 times out of 20."""

    @property
    def can_tell(self) -> bool:
        """Whether any order of so few patients would be more than chance."""
        return self.share is not None and self.by_chance[1] < 1


class Match(NamedTuple):
    """An audited case and one that the model has seen, with the same note; rows of the cohort."""

    audited: int
    seen: int
    identical: bool


@dataclass(frozen=True, eq=False)
class CohortChecks:
    """The checks of one cohort."""

    name: str
    n_patients: int
    """Among the audited cases."""
    found: Mapping[str, Found]
    """By metric; a check that does not apply (no text, no times) is not there."""
    constant: tuple[tuple[str, bool], ...] = ()
    """Labels that never vary among the audited cases, and whether all cases have them."""
    untrained: tuple[str, ...] = ()
    """Labels that never vary among the training cases, of those that vary among the audited ones."""
    matches: tuple[Match, ...] = ()
    n_short: int = 0
    """Audited notes that are compared word for word only, because they are short."""
    n_tiny: int = 0
    """Audited notes that are too short to be compared at all."""
    n_short_matches: int = 0
    """Short notes among the matches."""
    order: Order | None = None
    """Of audited and training cases; None without times or training cases."""


@dataclass(frozen=True, eq=False)
class Checked:
    """The checks of all cohorts."""

    cohorts: tuple[CohortChecks, ...]
    audited: Ints
    """Rows of the cohort."""
    split: str
    duplicates: Duplicates


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of one cohort by what they are used for."""

    name: str
    audited: Ints
    seen: Ints
    """Of this cohort, in splits that the model has seen."""
    training: Ints


@dataclass(frozen=True, eq=False)
class _NoteFindings:
    found: Mapping[str, Found] = field(default_factory=dict)
    matches: tuple[Match, ...] = ()
    n_short: int = 0
    n_tiny: int = 0
    n_short_matches: int = 0


def check_cohort(cohort: Cohort, labels: Sequence[str], split: str, duplicates: Duplicates) -> Checked:
    """All checks that apply to the table."""
    rows = [_rows_of(cohort, name, split) for name in cohort.names]
    seen = np.concatenate([each.seen for each in rows])
    if "split" in cohort.cases.columns:  # the training split first: a note that is in both is said to be there
        validation = (cohort.cases["split"] == "validation").fill_null(False).to_numpy()[seen]
        seen = seen[np.argsort(validation, kind="stable")]
    notes = _compare_notes(cohort, rows, seen, duplicates)
    checks = []
    for each in rows:
        if not len(each.audited):
            continue
        of_notes = notes.get(each.name, _NoteFindings())
        constant = _constant(cohort, each.audited, labels)
        varying = [label for label in labels if label not in dict(constant)]
        untrained = _constant(cohort, each.training, varying) if len(each.training) else ()
        found = {
            **of_notes.found,
            **_patients(cohort, each, n_seen=len(seen)),
            "constant_labels": Found(len(constant), len(labels)),
            **_times(cohort, each),
        }
        n_patients = n_distinct(cohort.patients[each.audited])
        checks.append(
            CohortChecks(
                each.name,
                n_patients,
                found,
                constant,
                tuple(label for label, _ in untrained),
                of_notes.matches,
                of_notes.n_short,
                of_notes.n_tiny,
                of_notes.n_short_matches,
                _order(cohort, each),
            )
        )
    return Checked(tuple(checks), np.concatenate([each.audited for each in rows]), split, duplicates)


def _rows_of(cohort: Cohort, name: str, split: str) -> _Rows:
    audited = cohort.rows(cohort=name, split=split)
    none = np.zeros(0, dtype=np.int64)
    if "split" not in cohort.cases.columns:
        return _Rows(name, audited, none, none)
    whole = cohort.rows(cohort=name)
    splits = cohort.cases[whole]["split"]
    seen = splits.is_in([each for each in TRAINED_ON if each != split]).fill_null(False).to_numpy()
    training = (splits == "train").fill_null(False).to_numpy() & (split != "train")
    return _Rows(name, audited, whole[seen], whole[training])


def _compare_notes(
    cohort: Cohort, rows: Sequence[_Rows], seen: Ints, duplicates: Duplicates
) -> dict[str, _NoteFindings]:
    """Each cohort's audited notes against all that the model has seen, and against each other."""
    if not cohort.has_text:
        return {}
    used = np.concatenate([*(each.audited for each in rows), seen])
    sketches = sketch([cohort.texts[row] for row in used.tolist()])
    place = np.full(len(cohort), -1, dtype=np.int64)
    place[used] = np.arange(len(used))
    n_words = np.zeros(len(cohort), dtype=np.int64)
    n_words[used] = sketches.n_words
    n_seen, seen = len(seen), seen[n_words[seen] >= duplicates.fewest_at_all]
    is_long = n_words >= duplicates.fewest_words
    known = _known_notes(cohort, used[is_long[used]], seen[is_long[seen]], sketches, place)
    compared = {}
    for each in rows:
        audited = each.audited[n_words[each.audited] >= duplicates.fewest_at_all]
        found = {"repeated_notes": _repeated(cohort, audited, sketches.take(place[audited]))}
        matches: tuple[Match, ...] = ()
        if not n_seen:
            found["known_notes"] = Found(0, 0, NOTHING_TO_COMPARE)
        elif not len(audited) or not len(seen):
            which = "training" if len(audited) else "audited"
            found["known_notes"] = Found(0, 0, f"no {which} note has {duplicates.fewest_at_all} words")
        else:
            matches = _matches(cohort, audited, seen, sketches.take(place), known, is_long, duplicates.similarity)
            which = "" if is_long[audited].any() else "audited"
            which = which or ("" if is_long[seen].any() else "training")
            limit = f"no {which} note has {duplicates.fewest_words} words, so only identical ones were looked for"
            identical = sum(match.identical for match in matches)
            found["known_notes"] = Found(len(matches), len(audited), limit=limit if which else None)
            found["identical_notes"] = Found(identical, len(audited))
        compared[each.name] = _NoteFindings(
            found,
            matches,
            int((~is_long[audited]).sum()),
            len(each.audited) - len(audited),
            sum(not is_long[match.audited] for match in matches),
        )
    return compared


def _known_notes(cohort: Cohort, used: Ints, seen: Ints, sketches: Sketches, place: Ints) -> KnownTexts:
    """The notes that the model has seen, ready to be searched; how rare their wording is, all notes together say."""
    _, first = np.unique(sketches.exact[place[used]], return_index=True)
    distinct = used[np.sort(first)] if len(seen) else used[:0]
    n_words = int(sketches.n_words[place[distinct]].sum())
    wording = Wording.of((cohort.texts[row] for row in distinct.tolist()), n_words=n_words)
    return KnownTexts([cohort.texts[row] for row in seen.tolist()], wording)


def _matches(
    cohort: Cohort,
    audited: Ints,
    seen: Ints,
    sketches: Sketches,
    known: KnownTexts,
    is_long: NDArray[np.bool_],
    similarity: float,
) -> tuple[Match, ...]:
    """Audited notes that the model has seen; `sketches` are those of all rows, `known` the long notes it has seen."""
    same = first_identical(sketches.take(audited), sketches.take(seen))
    found = [Match(int(row), int(seen[k]), True) for row, k in zip(audited, same, strict=True) if k >= 0]
    rest, theirs = audited[(same < 0) & is_long[audited]], seen[is_long[seen]]
    near = known.nearest([cohort.texts[row] for row in rest.tolist()], similarity=similarity)
    found += [Match(int(row), int(theirs[k]), False) for row, k in zip(rest, near, strict=True) if k >= 0]
    return tuple(sorted(found))


def _repeated(cohort: Cohort, audited: Ints, sketches: Sketches) -> Found:
    """Audited notes that are identical to one of another audited patient."""
    frame = pl.DataFrame({"note": sketches.exact, "patient": cohort.patients[audited]})
    several = pl.col("patient").n_unique().over("note") > 1
    return Found(int(frame.select(several.sum()).item() or 0), len(audited))


def _patients(cohort: Cohort, rows: _Rows, *, n_seen: int) -> dict[str, Found]:
    """Audited patients who also have cases that the model has seen, and their cases where these are a larger share.

    Ids of other cohorts mean other patients.
    """
    if not len(rows.seen):
        return {} if n_seen else {"known_patients": Found(0, 0, NOTHING_TO_COMPARE)}
    cases = cohort.cases[np.concatenate([rows.audited, rows.seen])]
    if (cases["patient_id"] == cases["case_id"]).all():
        return {"known_patients": Found(0, 0, ALONE)}
    seen = np.unique(cohort.patients[rows.seen])
    known = np.isin(cohort.patients[rows.audited], seen)
    audited = np.unique(cohort.patients[rows.audited])
    patients = Found(int(np.isin(audited, seen).sum()), len(audited))
    by_case = Found(int(known.sum()), len(known))
    more = (by_case.share or 0.0) > (patients.share or 0.0)
    return {"known_patients": patients} | ({"known_cases": by_case} if more else {})


def _constant(cohort: Cohort, rows: Ints, labels: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Labels that none or all of the cases have."""
    position = {label: k for k, label in enumerate(cohort.labels)}
    chosen = cohort.y[:, [position[label] for label in labels]].tocsr()[rows]
    positive = np.asarray(chosen.sum(axis=0, dtype=np.int64)).ravel()
    return tuple((label, bool(n)) for label, n in zip(labels, positive.tolist(), strict=True) if n in (0, len(rows)))


def _times(cohort: Cohort, rows: _Rows) -> dict[str, Found]:
    """What the times say, if the cohort has them."""
    if "time" not in cohort.cases.columns or cohort.cases["time"].is_null().all():
        return {}
    found = {}
    times = cohort.cases["time"]
    audited, training = times[rows.audited].drop_nulls(), times[rows.training].drop_nulls()
    if len(audited) and len(training):
        middle = training.sort()[len(training) // 2]
        found["earlier_cases"] = Found(int((audited < middle).sum()), len(audited))
    found |= _backwards(cohort, np.concatenate([rows.audited, rows.seen]))
    return found


def _order(cohort: Cohort, rows: _Rows) -> Order | None:
    """Audited against training times, by ranks (Mann and Whitney); chance is that of as many patients as there are."""
    if "time" not in cohort.cases.columns or not len(rows.training) or cohort.cases["time"].is_null().all():
        return None
    times = cohort.cases["time"]
    dated = times.is_not_null().to_numpy()
    audited, training = rows.audited[dated[rows.audited]], rows.training[dated[rows.training]]
    n, m = len(audited), len(training)
    if not n or not m:
        return Order(n, m)
    ranks = times[np.concatenate([audited, training])].rank("average").to_numpy()
    share = 1 - (ranks[:n].sum() - n * (n + 1) / 2) / (n * m)
    ours, theirs = (n_distinct(cohort.patients[part]) for part in (audited, training))
    spread = 1.96 * np.sqrt((ours + theirs + 1) / (12 * ours * theirs))
    return Order(n, m, float(share), (max(0.0, 0.5 - spread), min(1.0, 0.5 + spread)))


def _backwards(cohort: Cohort, rows: Ints) -> dict[str, Found]:
    """Successive cases of a patient between which time runs backwards.

    In the order of the table; and by age, where a later case has a lower one (by more than a year, because ages are
    rounded). Patients whose rows are not in order are counted where the table as a whole is not.
    """
    frame = cohort.cases[np.sort(rows)].with_columns(patient=pl.Series(cohort.patients[np.sort(rows)]))
    frame = frame.filter(pl.col("time").is_not_null())
    step = pl.col("time").diff().over("patient")
    steps = frame.select("patient", back=step.dt.total_microseconds() < 0).drop_nulls()
    found = {}
    if steps.height:
        found["backward_rows"] = back = Found(int(steps["back"].sum()), steps.height)
        if 1 - (back.share or 0.0) < IN_ORDER:
            patients = steps.group_by("patient").agg(pl.col("back").any())["back"]
            found["unordered_patients"] = Found(int(patients.sum()), len(patients))
    if "age" in frame.columns and frame["age"].dtype.is_numeric():
        aged = frame.filter(pl.col("age").is_not_null()).sort("time", maintain_order=True)
        years = aged.select(pl.col("age").diff().over("patient").alias("years")).to_series().drop_nulls()
        if len(years):
            found["falling_ages"] = Found(int((years < -1).sum()), len(years))
    return found
