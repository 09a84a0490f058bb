"""What if: a note, a change of it, and all models' answers side by side. Nothing is stored unless somebody asks.

What is kept on request is the writer's alone. Notes of the cohort can be chosen only with `--show-notes`; what somebody
pastes is theirs to show.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.perturb.suites import list_suites
from palpate.privacy import hides
from palpate.workbench.notes import AlteringOptions, audit_options, notes_of
from palpate.workbench.pages import BenchProblem
from palpate.workbench.people import COORDINATOR, VIEWER
from palpate.workbench.sections import Bench, BenchSection, Door, Visit
from palpate.workbench.shelf import find_config
from palpate.workbench.whatif import changes, playground
from palpate.workbench.whatif.answers import AskedModels, ModelAnswer, WordWeights
from palpate.workbench.whatif.changes import LONGEST_NOTE, WantedChange

_ROLES = (COORDINATOR, VIEWER)
_LARGEST = 8 * LONGEST_NOTE
_MOST_LABELS = 10
_STEPS = 5
"""Shades of a highlight."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS whatif_kept (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person INTEGER NOT NULL REFERENCES people(id), title TEXT NOT NULL,
    note TEXT NOT NULL, changed TEXT NOT NULL, at REAL NOT NULL
) STRICT;
"""


class AnswerRow(NamedTuple):
    """One model's answer for one label, before and after."""

    model: str
    label: str
    before: float
    after: float
    threshold: float
    own_threshold: bool
    crossing: str
    """`up`, `down`, or neither: which side of the threshold it went to."""
    ms: float

    @property
    def change(self) -> float:
        """After less before."""
        return self.after - self.before


@hides("text")
class Highlight(NamedTuple):
    """A piece of a text; `shade` from -5 (speaks against the label) to 5 (for it)."""

    text: str
    shade: int
    score: float


def models_of(bench: Bench) -> AskedModels:
    """The models that answer."""
    return bench.kept("models", lambda: AskedModels(bench))


def options_of(bench: Bench) -> AlteringOptions:
    """How notes are altered: as the audit of the configuration does it."""
    return bench.kept("altering", lambda: audit_options(bench) or changes.WITHOUT_AUDIT)


def _characteristics(bench: Bench) -> dict[str, tuple[str, ...]]:
    return bench.kept("characteristics", lambda: changes.characteristics(options_of(bench)))


def warm_up(bench: Bench) -> None:
    """Load what the first question would wait for."""
    if find_config(bench.options) is not None:
        _characteristics(bench)
        models_of(bench).ask([""])


def compare(answers: Sequence[ModelAnswer]) -> list[AnswerRow]:
    """Before and after of each model and label; of many labels those that moved most."""
    rows = []
    for answer in answers:
        if answer.problem:
            continue
        before, after = answer.p
        order = np.lexsort((-after, -np.abs(after - before)))[:_MOST_LABELS]
        for label in sorted(order.tolist()):
            was, now = bool(before[label] >= answer.threshold), bool(after[label] >= answer.threshold)
            rows.append(
                AnswerRow(
                    answer.name,
                    answer.labels[label],
                    float(before[label]),
                    float(after[label]),
                    answer.threshold,
                    answer.own_threshold,
                    "" if was == now else "up" if now else "down",
                    1_000 * answer.seconds,
                )
            )
    return rows


def highlights(text: str, found: WordWeights) -> list[Highlight]:
    """The text in pieces, each with a shade by its share of the strongest score."""
    largest = float(np.abs(found.score).max(initial=0.0))
    parts, position = [], 0
    for start, end, score in sorted(zip(found.start.tolist(), found.end.tolist(), found.score.tolist(), strict=True)):
        shade = 0 if largest == 0 else round(_STEPS * score / largest)
        if start < position or shade == 0:
            continue
        parts += [Highlight(text[position:start], 0, 0.0)] if start > position else []
        parts.append(Highlight(text[start:end], shade, score))
        position = end
    return [*parts, Highlight(text[position:], 0, 0.0)] if position < len(text) else parts


def _page(visit: Visit) -> Response:
    notes, bench = notes_of(visit.bench), visit.bench
    asked, note = visit.query("case"), ""
    if asked and notes is not None:
        row = _random_row(len(notes.texts)) if asked == "random" else _row_of(notes.cases, asked)
        note, asked = notes.texts[row], notes.cases[row]
        visit.log("read a note", case=asked)
    return visit.page(
        "whatif/page.html.j2",
        note=note,
        case=asked if note else "",
        changed="",
        cases=() if notes is None else notes.cases[:2_000],
        characteristics=_characteristics(bench),
        models=models_of(bench).all(),
        kept=_kept(visit),
    )


def _random_row(n: int) -> int:
    return int(np.random.default_rng().integers(n))


def _row_of(cases: Sequence[str], case: str) -> int:
    if case not in cases:
        raise BenchProblem("no_note")
    return cases.index(case)


def _threshold(visit: Visit) -> float | None:
    text = visit.field("threshold", longest=20).strip().replace(",", ".")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1:
        raise BenchProblem("threshold")
    return value


def _ask(visit: Visit) -> Response:
    note = visit.field("note", longest=LONGEST_NOTE)
    if not note.strip():
        raise BenchProblem("note_first")
    written = visit.field("changed", longest=LONGEST_NOTE)
    name, _, group = visit.field("to", longest=100).partition("=")
    wanted = WantedChange(
        word=visit.field("word", longest=200),
        replacement=visit.field("replacement", longest=200),
        characteristic=name,
        group=group,
        sentence=visit.field("sentence", longest=500),
    )
    written = written if written.strip() else note
    changed = changes.change_note(written, wanted, options_of(visit.bench))
    models = models_of(visit.bench)
    answers = models.ask([note, changed.text], _threshold(visit))
    values: dict[str, Any] = {
        "told": changed.told,
        "parts": changes.differences(note, written, changed),
        "rows": compare(answers),
        "problems": [(answer.name, answer.problem) for answer in answers if answer.problem],
        "shown": _shown(models, answers, changed.text) if visit.field("highlights") else [],
        "note": note,
        "changed": changed.text,
    }
    visit.log("asked what-if")
    return visit.page("whatif/answers.html.j2" if visit.is_part else "whatif/asked.html.j2", **values)


def _shown(
    models: AskedModels, answers: Sequence[ModelAnswer], text: str
) -> list[tuple[str, str, str, list[Highlight]]]:
    """What each model looks at in the changed note, for the label that moved most."""
    shown = []
    for answer in answers:
        if answer.problem:
            continue
        label = int(np.argmax(np.abs(answer.p[1] - answer.p[0]))) if np.ptp(answer.p, axis=0).any() else 0
        found = models.weights(answer.name, text, label)
        if found is not None:
            shown.append((answer.name, answer.labels[label], found.way, highlights(text, found)))
    return shown


def _kept(visit: Visit) -> list[Any]:
    return visit.bench.store.read("SELECT id, title FROM whatif_kept WHERE person = ? ORDER BY id", (visit.person.id,))


def _keep(visit: Visit) -> Response:
    title = " ".join(visit.field("title", longest=120).split()) or time.strftime("%Y-%m-%d %H:%M")
    note, changed = (visit.field(name, longest=LONGEST_NOTE) for name in ("note", "changed"))
    values = (visit.person.id, title, note, changed, time.time())
    sql = "INSERT INTO whatif_kept (person, title, note, changed, at) VALUES (?, ?, ?, ?, ?)"
    visit.write(lambda db: db.execute(sql, values) and None)
    visit.log("kept a what-if")
    return visit.go("/whatif")


def _own(visit: Visit) -> Any:
    which = (int(visit.path["kept"]), visit.person.id)
    found = visit.bench.store.read("SELECT * FROM whatif_kept WHERE id = ? AND person = ?", which)
    if not found:
        raise HTTPException(404)
    return found[0]


def _kept_page(visit: Visit) -> Response:
    row = _own(visit)
    return visit.page(
        "whatif/page.html.j2",
        note=row["note"],
        case="",
        changed=row["changed"],
        cases=(),
        characteristics=_characteristics(visit.bench),
        models=models_of(visit.bench).all(),
        kept=_kept(visit),
    )


def _forget(visit: Visit) -> Response:
    row = _own(visit)
    visit.bench.store.forget(lambda db: db.execute("DELETE FROM whatif_kept WHERE id = ?", (row["id"],)) and None)
    visit.log("forgot a what-if")
    return visit.go("/whatif")


def _templates(visit: Visit) -> Response:
    base = visit.query("suite") if visit.query("suite") in list_suites() else list_suites()[0]
    return visit.page(
        "whatif/templates.html.j2",
        suites=list_suites(),
        base=base,
        slots=playground.slots_of(base),
    )


def _fill(visit: Visit) -> Response:
    template = visit.field("template", longest=playground.LONGEST_TEMPLATE)
    texts, n_all = playground.fill_template(template, visit.field("suite", longest=60), visit.field("own"))
    answers = models_of(visit.bench).ask(texts, _threshold(visit))
    asked = [answer for answer in answers if not answer.problem]
    visit.log("tried a template", texts=len(texts))
    return visit.page(
        "whatif/filled.html.j2" if visit.is_part else "whatif/tried.html.j2",
        texts=texts,
        n_all=n_all,
        answers=asked,
        problems=[(answer.name, answer.problem) for answer in answers if answer.problem],
    )


SECTION = BenchSection(
    "whatif",
    (
        Door("GET", "/whatif", _page, roles=_ROLES),
        Door("POST", "/whatif", _ask, roles=_ROLES, largest=_LARGEST),
        Door("POST", "/whatif/keep", _keep, roles=_ROLES, largest=_LARGEST),
        Door("GET", "/whatif/kept/{kept:int}", _kept_page, roles=_ROLES),
        Door("POST", "/whatif/kept/{kept:int}/forget", _forget, roles=_ROLES),
        Door("GET", "/whatif/templates", _templates, roles=_ROLES),
        Door("POST", "/whatif/templates", _fill, roles=_ROLES),
    ),
    roles=_ROLES,
    schema=SCHEMA,
    is_there=lambda bench: find_config(bench.options) is not None,
)
