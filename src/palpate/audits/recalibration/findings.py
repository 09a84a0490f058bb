"""What recalibration would change, in sentences; offered, never a verdict on the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import counted, interval, number
from palpate.audits.recalibration.measures import BEFORE, Offer
from palpate.results import Estimate, Finding

JUDGED = "brier"
"""What decides whether a method helps: a proper score, which no wrong risk can better."""


@dataclass(frozen=True)
class RecalibrationAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of the first label, as it is."""
    offers: Sequence[Offer]
    models: Sequence[str]
    labels: Sequence[str]
    methods: Sequence[str]
    left_out: Sequence[str]
    """Labels of the cohort that are not recalibrated."""
    level: float
    cohort: str
    split: str
    n_test: int
    n_shared: int
    """Patients who are in both splits."""
    thresholds: Mapping[str, str]
    """In words, where each scored model's threshold came from."""
    benefit: tuple[float, float]

    def change(self, offer: Offer, metric: str, method: str | None = None) -> Estimate | None:
        """What a method, by default the chosen one, changes on the held-out cases."""
        group = method or offer.chosen
        return self.estimates.find(metric, offer.model, label=offer.label, group=group, reference=BEFORE)

    def named(self, offer: Offer) -> str:
        """The model and, where there are several labels, the label."""
        return offer.model if len(self.labels) == 1 else f"{offer.model} for '{offer.label}'"


def recalibration_findings(analysis: RecalibrationAnalysis) -> tuple[Finding, ...]:
    """One sentence per model and label, then what limits them."""
    return (
        *(Finding(sentence=_sentence(analysis, offer)) for offer in analysis.offers),
        *_caveats(analysis),
    )


def _sentence(analysis: RecalibrationAnalysis, offer: Offer) -> str:
    named = analysis.named(offer)
    if all(each.why_not for each in offer.maps):
        return f"{named} was not recalibrated: {(offer.maps[0].why_not or '').removeprefix('not fitted: ')}."
    if offer.chosen == BEFORE:
        return (
            f"{named} is best left as it is: on the validation split, no method made new patients' risks better "
            "(log loss in cross-validation)."
        )
    row = analysis.change(offer, JUDGED)
    fitted = f"fitted on {counted(offer.n_patients, 'patient')}, {offer.n_positive:,} of {offer.n:,} cases positive"
    what = f"Recalibrating {named} ({offer.chosen}; {fitted})"
    levels = [
        number(analysis.estimates.value("ici", offer.model, label=offer.label, group=group))
        for group in (BEFORE, offer.chosen)
    ]
    if row is None or row.value is None:
        return f"{what} cannot be judged: {row.reason if row else 'no estimate'}."
    ratios = [
        number(analysis.estimates.value("oe_ratio", offer.model, label=offer.label, group=group))
        for group in (BEFORE, offer.chosen)
    ]
    moves = (
        f"would move the mean distance of its risks from what happened (ICI) from {levels[0]} to {levels[1]}, and "
        f"observed to expected (O:E, 1 is right) from {ratios[0]} to {ratios[1]}"
    )
    size = f"Brier score {number(row.value, signed=True)}, {interval(row, signed=True)}"
    if row.high is not None and row.high < 0:
        return f"{what} {moves}; it is shown to help ({size})."
    if row.low is not None and row.low > 0:
        return f"{what} {moves}; it is shown to harm ({size}): leave it as it is."
    return f"{what} {moves}; that it helps is not shown ({size})."


def _caveats(analysis: RecalibrationAnalysis) -> Iterator[Finding]:
    if analysis.n_shared:
        who = counted(analysis.n_shared, "patient is", "patients are")
        yield Finding(
            sentence=f"{who} both in the validation split and among the held-out cases, so that what recalibration "
            "gains looks larger than it is. Split by patient.",
            kind="caveat",
        )
    if analysis.left_out:
        n = len(analysis.left_out) + len(analysis.labels)
        sentence = f"{len(analysis.left_out):,} of {n:,} labels were not recalibrated; name them in `labels:`."
        yield Finding(sentence=sentence, kind="caveat")
    yield Finding(
        sentence="Recalibration is offered here and applied nowhere: all other audits are about the models as they are."
    )
