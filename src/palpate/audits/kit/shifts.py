"""The notes whose prediction an alteration moves furthest and, only if asked for, what was altered in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Edit, Ints, splice
from palpate.results import Examples, ModelPredictions, Plan, Predictions

_CONTEXT = 45
_LONGEST = 240


class AlteredGroups(Protocol):
    """The same notes in several groups."""

    @property
    def group_names(self) -> tuple[str, ...]:
        """The groups as the table of estimates has them."""
        ...

    @property
    def rows(self) -> Ints:
        """The rows of the cohort that were altered."""
        ...

    def variant(self, note: int, group: int) -> int:
        """The variant that is the k-th note in the g-th group."""
        ...

    def cut(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the plan's variants as [note, group, ...]; NaN where a note is not in a group."""
        ...


class Shift(NamedTuple):
    """One note, altered to the group and seen for the label for which its prediction moves furthest."""

    model: str
    case_id: str
    variant: int
    label: str
    group: str
    before: float
    after: float


def largest_shifts(
    plan: Plan[Any], predictions: Predictions, arms: Sequence[AlteredGroups], original: Ints, n: int
) -> list[Shift]:
    """For each scored model and arm, the `n` notes that move furthest from the note as written, where they move.

    `original` is, for each row of the cohort, the variant that is the note as written.
    """
    shifts: list[Shift] = []
    for model, answers in predictions.scored.items():
        for arm in arms:
            shifts += _in_arm(plan, model, answers, arm, original, n) if len(arm.rows) else []
    return shifts


def _in_arm(
    plan: Plan[Any], model: str, answers: ModelPredictions, arm: AlteredGroups, original: Ints, n: int
) -> list[Shift]:
    before = answers.p[original[arm.rows]]
    after = arm.cut(answers.p)
    moved = np.abs(np.nan_to_num(after - before[:, None])).reshape(len(arm.rows), -1)
    furthest = moved.argmax(axis=1)
    size = moved[np.arange(len(moved)), furthest]
    # Ties go by the note's place, so that the list does not depend on the sort.
    order = np.argsort(-size, kind="stable")[:n]
    case_ids = plan.cohort.cases["case_id"]
    shifts = []
    for k in (int(k) for k in order if size[k] > 0):
        g, j = divmod(int(furthest[k]), len(plan.labels))
        shifts.append(
            Shift(
                model=model,
                case_id=str(case_ids[int(arm.rows[k])]),
                variant=arm.variant(k, g),
                label=plan.labels[j],
                group=arm.group_names[g],
                before=float(before[k, j]),
                after=float(after[k, g, j]),
            )
        )
    return shifts


def altered_excerpts(plan: Plan[Any], shifts: Sequence[Shift]) -> Examples:
    """What was altered in the notes of `shifts`, with a little of the text around it; holds note text."""
    rows = []
    for shift in {shift.variant: shift for shift in shifts}.values():
        parent = plan.cohort.texts[int(plan.variants.parent[shift.variant])]
        before, after = _excerpts(parent, plan.variants.edits(shift.variant))
        rows.append((shift.case_id, shift.group, before, after))
    return Examples(
        title="What was altered",
        caption="Excerpts of the notes with the largest shifts, before and after.",
        columns=("Case", "Altered to", "Before", "After"),
        rows=tuple(rows),
        has_note_text=True,
    )


def _excerpts(parent: str, edits: Sequence[Edit]) -> tuple[str, str]:
    """The text around the first edits, as written and as altered."""
    if not edits:
        return "", ""
    first = edits[0]
    near = [edit for edit in edits if edit.end <= first.end + _LONGEST]
    low, high = max(0, first.start - _CONTEXT), min(len(parent), near[-1].end + _CONTEXT)
    moved = [Edit(edit.start - low, edit.end - low, edit.text) for edit in edits if edit.end <= high]
    excerpt = parent[low:high]
    marks = ("… " if low else "", " …" if high < len(parent) else "")
    return f"{marks[0]}{excerpt}{marks[1]}", f"{marks[0]}{splice(excerpt, moved)}{marks[1]}"
