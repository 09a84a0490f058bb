"""The data checks' estimates, answers, sentences and tables; the same for every model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from palpate.audits.data.checks import Checked, CohortChecks, Found
from palpate.audits.kit.answers import Question
from palpate.audits.kit.rows import RowWriter
from palpate.audits.kit.tables import columns, table
from palpate.audits.kit.wording import counted, listed, percent, quoted
from palpate.cases.cohort import Cohort
from palpate.results import Estimate, Finding, Table
from palpate.results.verdicts import Answer, Effect

METRICS = {
    "known_notes": "Audited notes that also stand, identical or nearly so, in a split that the model has seen",
    "identical_notes": "Audited notes that stand there identically",
    "repeated_notes": "Audited notes that are identical to one of another audited patient",
    "known_patients": "Audited patients who also have cases in a split that the model has seen",
    "known_cases": "Audited cases of such patients, where they have more than their share of the cases",
    "constant_labels": "Labels that all or none of the audited cases have",
    "earlier_cases": "Audited cases that are earlier than the median training case",
    "backward_rows": "Successive rows of a patient between which time runs backwards",
    "unordered_patients": "Patients with several cases whose rows are not in order of time",
    "falling_ages": "Successive cases of a patient between which the age falls",
}
BEFORE, SOMETIMES_BEFORE = 0.9, 0.55
"""Shares of the pairs in which the audited case is the earlier one: the test lies before the training; too little to
matter, even if it is more than chance."""
OFTEN_BACKWARDS = 0.05
_MOST_PAIRS = 50
_LEAKAGE = {"known_notes": "notes", "known_patients": "patients", "known_cases": "cases"}


def data_rows(checked: Checked, models: Sequence[str]) -> list[Estimate]:
    """One row per model, cohort and check."""
    writer = RowWriter("data")
    return [
        writer.row(
            model,
            metric,
            "",
            each.name,
            found.share,
            n=found.of,
            n_positive=found.n,
            interval=(found.share, found.share),
            reason=found.reason or (None if found.of else "there is nothing to look at"),
        )
        for model in models
        for each in checked.cohorts
        for metric in METRICS
        if (found := each.found.get(metric)) is not None
    ]


def _questions(margins: Mapping[str, float]) -> tuple[Question, Question]:
    leakage = "Are the audited patients new to the model?"
    labels = "Do the audited cases include both outcomes?"
    return (
        Question("leakage", leakage, "leakage", margins["leakage"], percent=True),
        Question("labels", labels, "constant_labels", margins["constant_labels"], percent=True),
    )


def data_answers(
    checked: Checked, rows: Sequence[Estimate], models: Sequence[str], margins: Mapping[str, float]
) -> tuple[Answer, ...]:
    """The audit's cells of the scorecard."""
    leakage, labels = _questions(margins)
    by_place = {(row.model, row.group, row.metric): row for row in rows}
    answers: list[Answer | None] = []
    for model in models:

        def effects(question: Question, metrics: Mapping[str, str], model: str = model) -> list[Effect | None]:
            found = []
            for each in checked.cohorts:
                for metric, name in metrics.items():
                    limit = _limit(each.found.get(metric), question.margin)
                    effect = question.effect(by_place.get((model, each.name, metric)), each.n_patients, reason=limit)
                    where = f" in {each.name}" if len(checked.cohorts) > 1 else ""
                    found.append(None if effect is None else effect._replace(label=name + where))
            return found

        answer = leakage.answer(model, effects(leakage, _LEAKAGE))
        answers.append(None if answer is None else answer.model_copy(update={"metric": _compared(answer, checked)}))
        answers.append(labels.answer(model, effects(labels, {"constant_labels": "labels"})))
    return tuple(answer for answer in answers if answer is not None)


def _compared(answer: Answer, checked: Checked) -> str:
    """The metric of what decides, notes or patients; where there is one effect only, of what was compared."""
    if answer.label is not None:
        return next(metric for metric, name in _LEAKAGE.items() if answer.label.startswith(name))
    return next(metric for metric in _LEAKAGE if any(metric in each.found for each in checked.cohorts))


def _limit(found: Found | None, margin: float) -> str | None:
    """Why a share within the margin does not reassure, if it does not."""
    return None if found is None or (found.share or 0.0) > margin else found.limit


def concerns(checked: Checked, margins: Mapping[str, float]) -> Iterator[str]:
    """What a user should hear before anything is scored."""
    for each in checked.cohorts:
        yield from _leaks(checked, each, margins["leakage"])
        if (share := each.found["constant_labels"].share) is not None and share > margins["constant_labels"]:
            yield _constant_labels(checked, each)
        yield from (sentence for sentence, serious in _times(checked, each) if serious)


def data_findings(checked: Checked, margins: Mapping[str, float]) -> tuple[Finding, ...]:
    """Concerns about the data come without a question: they are read before everything else."""
    leakage, labels = _questions(margins)
    if not checked.cohorts:
        return (Finding(sentence=f"No case is in split '{checked.split}': the data were not checked.", kind="caveat"),)
    found = [Finding(sentence=sentence, kind="concern") for sentence in concerns(checked, margins)]
    found += _new(checked, leakage)
    if not any(each.constant for each in checked.cohorts):
        sentence = "The audited cases include both outcomes of every label."
        found.append(Finding(sentence=sentence, kind="acceptable", question=labels.name))
    for each in checked.cohorts:
        share = each.found["constant_labels"].share or 0.0
        if 0 < share <= labels.margin:
            found.append(Finding(sentence=_constant_labels(checked, each), kind="caveat", question=labels.name))
        if each.untrained:
            sentence = (
                f"{quoted(each.untrained)} never {'vary' if len(each.untrained) > 1 else 'varies'} among the training "
                f"cases{_in(checked, each)}: a model that was trained on them cannot have learned it."
            )
            found.append(Finding(sentence=sentence, kind="caveat", question=labels.name))
        repeated = each.found.get("repeated_notes")
        if repeated is not None and (repeated.share or 0.0) > leakage.margin:
            sentence = (
                f"{_amount(repeated, 'audited note')}{_in(checked, each)} repeat the note of another audited patient "
                "word for word; they count as separate patients, so intervals may be too narrow."
            )
            found.append(Finding(sentence=sentence, kind="caveat"))
        found += [Finding(sentence=text, kind="caveat") for text, serious in _times(checked, each) if not serious]
    return tuple(found)


def _new(checked: Checked, question: Question) -> list[Finding]:
    """One sentence where no leak is beyond the margin: what was compared, or why it cannot be told."""
    compared, reasons = [], []
    for each in checked.cohorts:
        for metric, name in _LEAKAGE.items():
            found = each.found.get(metric)
            if found is None:
                continue
            if (found.share or 0.0) > question.margin:
                return []
            reason = found.reason or found.limit
            reasons += [] if reason is None else [reason]
            if found.share is not None:
                compared.append(f"{found.n:,} of {counted(found.of, name[:-1])}{_in(checked, each)}")
    if reasons:
        sentence = (
            f"Whether the audited patients are new to the model cannot be told: {listed(list(dict.fromkeys(reasons)))}."
        )
        also = f" Of what can be compared, {listed(compared)} stand in training or validation too." if compared else ""
        sentence += also + _too_short(checked)
        return [Finding(sentence=sentence, kind="unsettled", question=question.name)]
    if not compared:
        return []
    sentence = (
        f"Of the audited cases, {listed(compared)} also stand in training or validation; more than "
        f"{percent(question.margin)} would be a concern.{_too_short(checked)}"
    )
    return [Finding(sentence=sentence, kind="acceptable", question=question.name)]


def _too_short(checked: Checked, cohorts: Sequence[CohortChecks] = ()) -> str:
    """How many notes were left out of a comparison; nothing where notes were not compared."""
    there = [each for each in cohorts or checked.cohorts if each.found.get("identical_notes") is not None]
    short, tiny = sum(each.n_short for each in there), sum(each.n_tiny for each in there)
    parts = []
    if short:
        parts.append(
            f"{counted(short, 'audited note')} of fewer than {checked.duplicates.fewest_words} words "
            f"{'was' if short == 1 else 'were'} compared word for word only"
        )
    if tiny:
        fewest = checked.duplicates.fewest_at_all
        parts.append(f"{counted(tiny, 'audited note')} of fewer than {fewest} words not at all")
    return f" {listed(parts)}." if parts else ""


def _leaks(checked: Checked, each: CohortChecks, margin: float) -> Iterator[str]:
    notes, patients, cases = (each.found.get(metric) for metric in _LEAKAGE)
    effect = "its performance on them may be memory"
    if notes is not None and (notes.share or 0.0) > margin:
        identical = each.found["identical_notes"].n
        short = f", {each.n_short_matches:,} of them short" if each.n_short_matches else ""
        how = f"{identical:,} word for word{short}, {notes.n - identical:,} nearly"
        yield (
            f"{_amount(notes, 'audited note')}{_in(checked, each)} also stand in the training or validation split "
            f"({how}): the model may have seen them, and {effect}."
            f"{_too_short(checked, [each])}"
        )
    if patients is not None and (patients.share or 0.0) > margin:
        yield (
            f"{_amount(patients, 'audited patient')}{_in(checked, each)} also have cases in the training or validation "
            f"split: the model may know them, and {effect}."
        )
    elif cases is not None and (cases.share or 0.0) > margin:
        yield (
            f"{_amount(cases, 'audited case')}{_in(checked, each)} are of patients who also have cases in the training "
            f"or validation split: the model may know them, and {effect}."
        )


def _constant_labels(checked: Checked, each: CohortChecks) -> str:
    where = _in(checked, each)
    every, none = ([name for name, all_have in each.constant if all_have is kind] for kind in (True, False))
    parts = [f"no audited case{where} has {quoted(none)}"] if none else []
    parts += [f"every audited case{where} has {quoted(every)}"] if every else []
    n = len(each.constant)
    size = "" if each.found["constant_labels"].of == 1 else f" ({n:,} of {each.found['constant_labels'].of:,} labels)"
    sentence = f"{listed(parts)}{size}: nothing can be said about {'it' if n == 1 else 'them'}."
    return sentence[0].upper() + sentence[1:]


def _times(checked: Checked, each: CohortChecks) -> Iterator[tuple[str, bool]]:
    """Sentences about the times, and whether each is a concern."""
    where = _in(checked, each)
    yield from _order(each, where)
    back, unordered = each.found.get("backward_rows"), each.found.get("unordered_patients")
    if unordered is not None:
        yield (
            f"The rows of {unordered.n:,} of {counted(unordered.of, 'patient')} with several cases are not in order of "
            f"time{where}: if they should be, times or patients are wrong.",
            False,
        )
    elif back is not None and back.n:
        yield (
            f"Time runs backwards in {_amount(back, 'step')} from one row of a patient to the next{where}, in a table "
            "that is otherwise in order: some times or patients may be wrong.",
            (back.share or 0.0) > OFTEN_BACKWARDS,
        )
    ages = each.found.get("falling_ages")
    if ages is not None and ages.n:
        yield (
            f"The age falls in {_amount(ages, 'step')} from one case of a patient to a later one{where}: some times, "
            "ages or patients are wrong.",
            (ages.share or 0.0) > OFTEN_BACKWARDS,
        )


def _order(each: CohortChecks, where: str) -> Iterator[tuple[str, bool]]:
    """Whether the test lies before the training, or why that was not judged."""
    order, earlier = each.order, each.found.get("earlier_cases")
    if order is None:
        return
    if order.share is None or earlier is None or not order.can_tell:
        few = f"{counted(order.n_audited, 'audited case')} and {counted(order.n_training, 'training case')} have a time"
        yield f"Whether the test lies before the training{where} was not judged: {few}.", False
    elif order.share > max(order.by_chance[1], SOMETIMES_BEFORE):
        serious = order.share >= BEFORE
        rest = "the test lies before the training" if serious else "the test tends to lie before the training"
        low, high = map(percent, order.by_chance)
        yield (
            f"{_amount(earlier, 'audited case')}{where} are earlier than the median training case, and of all pairs of "
            f"the two the audited case is the earlier one in {percent(order.share)}, where a random split has {low} to "
            f"{high}: {rest}, so it does not show how the model will do on later patients.",
            serious,
        )


def data_blocks(checked: Checked, cohort: Cohort) -> tuple[Table, ...]:
    """What was counted, and which cases stand twice."""
    rows = [
        (METRICS[metric], each.name, found.n if found.of else None, found.of, found.share, found.reason or "")
        for each in checked.cohorts
        for metric in METRICS
        if (found := each.found.get(metric)) is not None
    ]
    names = columns("Check", "Cohort", ("Found", "integer"), ("Of", "integer"), ("Share", "percent"), "Why not counted")
    caption = (
        "Counted over all cases, so there is no interval. Notes are nearly identical if at least "
        f"{percent(checked.duplicates.similarity)} of the wording of one (runs of three words, numbers aside; what "
        "many notes say counts little) stands in the other. Checks that do not apply are not listed."
    )
    blocks = [table("Data checks", caption, names, rows, collapsed=False)]
    matches = [match for each in checked.cohorts for match in each.matches]
    if matches:
        cases = cohort.cases.select("cohort", "case_id", "split").rows()
        pairs = [
            (*cases[match.audited][:2], cases[match.seen][1], cases[match.seen][2], match.identical)
            for match in matches[:_MOST_PAIRS]
        ]
        more = f"The first {_MOST_PAIRS} of {len(matches):,}. " if len(matches) > _MOST_PAIRS else ""
        names = columns("Cohort", "Audited case", "Same note in case", "Split", ("Identical", "flag"))
        caption = f"{more}One example for each audited note; there may be others."
        blocks.append(table("Audited notes that the model may have seen", caption, names, pairs, collapsed=True))
    return tuple(blocks)


def _amount(found: Found, noun: str) -> str:
    """`64% of the audited notes (1,203 of 1,880)`."""
    return f"{percent(found.share)} of the {noun}s ({found.n:,} of {found.of:,})"


def _in(checked: Checked, each: CohortChecks) -> str:
    return f" in {each.name}" if len(checked.cohorts) > 1 else ""
