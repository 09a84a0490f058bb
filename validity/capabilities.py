"""The capabilities audit on simulated templates: other wordings, drawn from a population whose pass rate is known.

A template passes each of its sentences with a probability of its own. In `wordings differ` these spread smoothly; in
`the wording decides` a template passes nearly always or nearly never, as in the paper's Figures 5 and 6; in `nearly all
pass` one template in ten fails; in `every seed alike` three seeds pass 2 of 3 of every template's sentences. In the
cells about notes, sentences stand in notes, and both the template and the note shift their pass rate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate import Cohort
from palpate.audits.capabilities import Capabilities
from palpate.audits.capabilities.plan import PlannedSuite
from palpate.audits.capabilities.slot_values import equality_p
from palpate.perturb.suites import Suite, read_suite_yaml
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions
from palpate.stats.clustered_rates import AveragedRates, PassRates, Rates, difference, pass_rates
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
Rng = np.random.Generator
N_CASES = 30


class Wordings(NamedTuple):
    """A population of templates: their pass rates, and the mean of these."""

    name: str
    draw: Callable[[Rng, int], Floats]
    truth: float


def decides(truth: float, *, high: float = 0.98, low: float = 0.05) -> Wordings:
    """The wording decides: a share of the templates passes nearly always, the others nearly never."""
    share = (truth - low) / (high - low)
    name = f"the wording decides, {truth:.0%} pass"
    return Wordings(name, lambda rng, k: np.where(rng.random(k) < share, high, low), truth)


def spread(truth: float, size: float = 4.0) -> Wordings:
    """Pass rates with a beta distribution."""
    name = f"wordings differ, {truth:.0%} pass"
    return Wordings(name, lambda rng, k: rng.beta(truth * size, (1 - truth) * size, k), truth)


POPULATIONS = (
    spread(0.6),
    spread(0.97, 20.0),
    spread(0.03, 20.0),
    decides(0.7),
    Wordings("nearly all pass", lambda rng, k: np.where(rng.random(k) < 0.9, 0.99, 0.3), 0.9 * 0.99 + 0.1 * 0.3),
    Wordings("one in ten fails whole", lambda rng, k: np.where(rng.random(k) < 0.9, 1.0, 0.0), 0.9),
    Wordings("every seed alike", lambda _, k: np.full(k, 2 / 3), 2 / 3),
)


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage of every interval, then the audit as a whole."""
    rng = np.random.default_rng(seed)
    yield from _levels(n_samples, rng, (3, 14) if thin else (2, 3, 6, 10, 14, 36))
    yield from _recalls(n_samples, rng, (30,) if thin else (10, 30, 100, 400))
    yield from _differences(n_samples, rng, (6, 14) if thin else (3, 6, 10, 14, 36))
    yield from _slot_values(n_samples, rng, (6,) if thin else (3, 6, 14))
    yield from _whole_audits(min(n_samples, 60 if thin else 400), rng, thin=thin)
    yield from _in_notes(min(n_samples, 400), rng, ((6, 20),) if thin else ((6, 20), (14, 5), (14, 50), (36, 20)))


# --- intervals ----------------------------------------------------------------------------------------------------


def simulate(rng: Rng, theta: Floats, *, columns: int = 1) -> PassRates:
    """Pass rates as the audit makes them; `theta` is [column, template]. Rates of 2/3 are those of three seeds."""
    k = theta.shape[-1]
    template = np.repeat(np.arange(k), N_CASES)
    each = np.repeat(np.broadcast_to(theta, (columns, k)), N_CASES, axis=1)
    alike = bool(np.all(theta == 2 / 3))
    return pass_rates(template, each if alike else (rng.random(each.shape) < each).astype(np.float64))


def _covers(rates: Rates, truth: float) -> bool:
    return bool(np.all((rates.low <= truth + 1e-9) & (truth - 1e-9 <= rates.high)))


def _levels(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    for population in POPULATIONS:
        for k in sizes:
            found = [_covers(simulate(rng, population.draw(rng, k)).rates, population.truth) for _ in range(n_samples)]
            setting = f"{k} templates, {population.name}"
            yield Cell("coverage of a pass rate", setting, float(np.mean(found)), n_samples, COVERAGE)


def _recalls(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Held-out recall: patients with one to three notes that are alike."""
    for n in sizes:
        for truth in (0.68, 0.97):
            found = []
            for _ in range(n_samples):
                notes = rng.integers(1, 4, n)
                theta = rng.beta(truth * 2, (1 - truth) * 2, n)
                patient = np.repeat(np.arange(n), notes)
                passed = (rng.random(len(patient)) < theta[patient]).astype(np.float64)
                found.append(_covers(pass_rates(patient, passed[None], name="patients").rates, truth))
            setting = f"{n} patients, 1 to 3 notes, recall {truth:g}"
            yield Cell("coverage of held-out recall", setting, float(np.mean(found)), n_samples, COVERAGE)


def _differences(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    for k in sizes:
        for population in (spread(0.6), decides(0.7)):
            to_baseline, between, mean = [], [], []
            for _ in range(n_samples):
                theta = population.draw(rng, k)
                sentences = simulate(rng, theta)
                recall = pass_rates(np.arange(200), (rng.random((1, 200)) < 0.8).astype(np.float64))
                gap = difference(sentences.rates, recall.rates)
                to_baseline.append(_covers(gap, population.truth - 0.8))
                # The second model is the first one, but it loses one template in ten.
                lost = theta * (rng.random(k) >= 0.1)
                pair = simulate(rng, np.stack([theta, lost]), columns=2).paired_difference(0, 1)
                between.append(_covers(pair, 0.1 * population.truth))
                other = simulate(rng, spread(0.9).draw(rng, k))
                mean.append(_covers(AveragedRates([sentences, other]).rates, (population.truth + 0.9) / 2))
            setting = f"{k} templates, {population.name}"
            for what, found in (
                ("coverage of a difference to held-out recall", to_baseline),
                ("coverage of a difference between models", between),
                ("coverage of a mean over tests", mean),
            ):
                yield Cell(what, setting, float(np.mean(found)), n_samples, COVERAGE)


def _in_notes(n_samples: int, rng: Rng, sizes: Sequence[tuple[int, int]]) -> Iterator[Cell]:
    """Sentences in notes: the template and the note both shift a pass rate, little, or so much that they decide.

    The second test has other templates in the same notes.
    """
    for k, notes in sizes:
        for name, spreads in (
            ("notes alike", (1.0, 0.0)),
            ("notes differ", (1.0, 1.0)),
            ("the note decides", (0.5, 3.0)),
        ):
            drawn = rng.normal(size=(2, 400_000)) * np.array(spreads)[:, None]
            truth = float(_logistic(drawn.sum(axis=0) + 0.8).mean())
            level, mean, between = [], [], []
            for _ in range(n_samples):
                shift = rng.normal(size=notes) * spreads[1]
                tests = [_embedded(rng, k, shift, spreads[0]) for _ in range(2)]
                level.append(_covers(tests[0].rates.column(0), truth))
                mean.append(_covers(AveragedRates(tests).rates.column(0), truth))
                between.append(_covers(tests[0].paired_difference(0, 1), 0.0))
            setting = f"{k} templates in {notes} notes, {name}"
            for what, found in (
                ("coverage of a pass rate in notes", level),
                ("coverage of a mean over tests in the same notes", mean),
                ("coverage of a difference between models in notes", between),
            ):
                yield Cell(what, setting, float(np.mean(found)), n_samples, COVERAGE)


def _embedded(rng: Rng, k: int, shift: Floats, spread_of_templates: float) -> PassRates:
    """Two models that are alike but for chance; the sentences of a template go to the notes in turn."""
    template = np.repeat(np.arange(k), N_CASES)
    note = (template + np.tile(np.arange(N_CASES), k)) % len(shift)
    theta = _logistic(0.8 + spread_of_templates * rng.normal(size=k)[template] + shift[note])
    passed = (rng.random((2, len(theta))) < theta).astype(np.float64)
    return pass_rates(template, passed, other=note, n_other=len(shift))


def _logistic(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _slot_values(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Five drug names in the same templates, none of which matters."""
    for k in sizes:
        alarms = []
        for _ in range(n_samples):
            theta = decides(0.7).draw(rng, k)[:, None]
            rates = rng.binomial(N_CASES // 5, theta, (k, 5)) / (N_CASES // 5)
            p_value = equality_p(rates[None], np.ones((k, 5), dtype=bool), n_permutations=200, rng=rng)
            alarms.append(p_value[0] < 0.05)
        rate = float(np.mean(alarms))
        yield Cell("false alarms, what fills a slot", f"{k} templates, 5 names", rate, n_samples, at_most=FALSE_ALARMS)


# --- the audit as a whole -----------------------------------------------------------------------------------------


def _suite(sizes: dict[str, tuple[int, int]]) -> Suite:
    """Tests of one capability, each with templates of both labels."""
    tests = []
    for name, counts in sizes.items():
        templates = [
            {"id": f"{name}-{len(label)}-{k}", "label": label, "text": f"The {name} {label} {k} is {{word}}."}
            for label, n in zip(("ADE", "no ADE"), counts, strict=True)
            for k in range(n)
        ]
        tests.append({"id": name, "type": "MFT", "templates": templates})
    suite = {
        "suite": "simulated",
        "labels": {"positive": "ADE", "negative": "no ADE"},
        "lexicons": {"word": [f"w{k}" for k in range(N_CASES)]},
        "sizes": {"word": N_CASES},
        "capabilities": [{"id": "order", "title": "Order", "tests": tests}],
    }
    with TemporaryDirectory() as folder:
        file = Path(folder) / "simulated.yaml"
        file.write_text(json.dumps(suite))
        return read_suite_yaml(file)


class World(NamedTuple):
    """A plan, and how a model's answers to it are drawn."""

    audit: Capabilities
    plan: Plan[PlannedSuite]

    @classmethod
    def of(cls, sizes: dict[str, tuple[int, int]], n_held_out: int) -> World:
        """A suite with tests of these numbers of templates, and a cohort with as many cases of each label."""
        audit = Capabilities(suite=_suite(sizes), threshold=0.5, n_replicates=100, examples=0)
        y = np.arange(2 * n_held_out) % 2
        frame = pl.DataFrame(
            {"case_id": [str(k) for k in range(len(y))], "text": "x", "split": "test", "ADE": y.tolist()}
        )
        plan = audit.plan(Cohort.from_frame(frame, labels=["ADE"]), np.random.default_rng(0))
        return cls(audit, plan)

    def sample(self, rng: Rng, recall: float, rates: dict[str, Wordings]) -> AuditResult:
        """The audit of a model with this recall of both labels and these pass rates, by `test: label`."""
        examined, memory = self.plan.memory.examined, self.plan.memory
        p = np.zeros(len(self.plan.variants))
        y = self.plan.cohort.y_true(self.plan.variants.parent[memory.held_out], self.plan.labels)[:, 0]
        p[memory.held_out] = np.where(rng.random(len(y)) < recall, y, 1 - y)
        for test in examined.tests:
            template = examined.template[test.cases]
            theta = rates[test.group.partition("/")[2]].draw(rng, int(examined.template.max()) + 1)[template]
            passed = rng.random(len(template)) < theta
            p[examined.first[test.cases]] = passed == bool(test.positive)
        scored = ModelPredictions(self.plan.labels, p[:, None], np.ones(len(p), dtype=bool))
        return self.audit.analyse(self.plan, Predictions({"toy": scored}), rng)


def _whole_audits(n_samples: int, rng: Rng, *, thin: bool) -> Iterator[Cell]:
    groups = ("standard: ADE", "standard: no ADE", "single: ADE", "single: no ADE")
    for k, n in ((14, 300),) if thin else ((6, 300), (14, 300), (36, 2000)):
        world = World.of({"standard": (k, k), "single": (k, k)}, n)
        for kind in (spread, decides):
            setting = f"{k} templates per label, {n} held-out cases per label, {kind.__name__}"
            setting = setting.replace("spread", "wordings differ").replace("decides", "the wording decides")
            nulls = [world.sample(rng, 0.7, dict.fromkeys(groups, kind(0.7))) for _ in range(n_samples)]
            rate = np.mean([_alarm(result) for result in nulls])
            yield Cell("family-wise false alarms", setting, float(rate), n_samples, at_most=FALSE_ALARMS)
            same = dict.fromkeys(groups, kind(0.6))
            found = [world.sample(rng, 0.7, same).answers[0].verdict for _ in range(n_samples)]
            for verdict in ("concern", "acceptable"):
                what = f'wrong "{verdict}", every label at the margin'
                rate = np.mean([each == verdict for each in found])
                yield Cell(what, setting, float(rate), n_samples, at_most=WRONG_VERDICTS)
            one = {**dict.fromkeys(groups, spread(0.95)), groups[0]: kind(0.6)}
            found = [world.sample(rng, 0.7, one).answers[0].verdict for _ in range(n_samples)]
            what = 'wrong "acceptable", one label at the margin'
            rate = np.mean([each == "acceptable" for each in found])
            yield Cell(what, setting, float(rate), n_samples, at_most=WRONG_VERDICTS)
    yield from _power(n_samples, rng)


def _alarm(result: AuditResult) -> bool:
    against = result.estimates.filter(pl.col("reference").str.starts_with("held-out"), metric="pass_rate")
    return bool(against["significant"].any())


def _power(n_samples: int, rng: Rng) -> Iterator[Cell]:
    """The paper's Figure 3: how often its largest gaps would be shown again."""
    published = {
        "beneficial effects, no ADE: 7.5% pass, recall 97.5%": (0.975, {"standard: no ADE": 0.075}, (6, 6)),
        "temporal order, standard, ADE: 25% pass, recall 68%": (0.68, {"standard: ADE": 0.25}, (12, 14)),
        "negation, ADE: 41% pass, recall 68%": (0.68, {"standard: ADE": 0.41}, (4, 11)),
        "gives one answer: 99% and 1% pass": (0.5, {"standard: ADE": 0.99, "standard: no ADE": 0.01}, (12, 14)),
    }
    for name, (recall, rates, sizes) in published.items():
        world = World.of({"standard": sizes}, 1000)
        each = {group: spread(rates.get(group, recall)) for group in ("standard: ADE", "standard: no ADE")}
        found = [world.sample(rng, recall, each) for _ in range(n_samples)]
        rate = np.mean([result.answers[0].verdict == "concern" for result in found])
        yield Cell('power: "concern"', f"{name}; {sizes[0]} and {sizes[1]} templates", float(rate), n_samples)
