"""What `palpate card` and `palpate export pdf | pptx` do: a run in the forms that a hospital files and shows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from palpate.errors import ConfigError, InputError, closest
from palpate.files import write_atomically
from palpate.report.cards.audited import Run
from palpate.report.cards.entries import Wells
from palpate.report.cards.facts import EVALUATION_KIND, facts_template, read_facts
from palpate.report.cards.formats import EXTENSIONS, WRITERS
from palpate.report.cards.items import Card, make_card
from palpate.report.cards.measured import measure
from palpate.run.directory import RunDirectory


class WrittenCard(NamedTuple):
    """Where the card is, and how much of it is complete."""

    file: Path
    n_items: int
    n_complete: int
    summary: str
    """The same as a sentence."""


def read_model_card(run: Path, kind: str, *, model: str | None = None, facts: Path | None = None) -> Card:
    """The card as data; `model` may be left out where the run has only one."""
    if kind not in EXTENSIONS:
        raise ConfigError(f"unknown card '{kind}'", hint=closest(kind, EXTENSIONS, all_are="the cards are"))
    directory = RunDirectory(run)
    manifest = directory.read_manifest()
    results = directory.read_results()
    known = read_facts(facts) if facts is not None else {}
    _check_cohorts(known.get(EVALUATION_KIND), [str(each["name"]) for each in manifest.get("cohorts", [])], facts)
    chosen = _model(manifest["models"], model, run)
    measured = measure(Run(manifest, results, chosen, directory.read_table("data", "table1")), known)
    return make_card(kind, chosen, manifest, Wells(measured, known, "facts" if facts is None else facts.name))


def _check_cohorts(kinds: object, names: list[str], facts: Path | None) -> None:
    """Kinds are those of the run's cohorts."""
    unknown = next((name for name in kinds if name not in names), None) if isinstance(kinds, dict) else None
    if unknown is not None:
        hint = closest(unknown, names, all_are="the run's cohorts are")
        raise ConfigError(
            f"`{EVALUATION_KIND}` names '{unknown}', which is no cohort of the run", file=facts, hint=hint
        )


def _model(models: list[dict[str, object]], wanted: str | None, run: Path) -> str:
    """The model of the card, an ensemble by its own name."""
    names = list(dict.fromkeys(str(each["ensemble"] or each["name"]) for each in models))
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None:
        raise InputError(
            f"the run has {len(names)} models, and a card is about one",
            file=run,
            hint=f"add --model {shlex.quote(names[0])}",
        )
    if wanted not in names:
        raise InputError(f"the run has no model '{wanted}'", file=run, hint=closest(wanted, names, all_are="it has"))
    return wanted


def write_model_card(
    run: Path, kind: str, out: Path | None = None, *, model: str | None = None, facts: Path | None = None
) -> WrittenCard:
    """Write the card; the ending of the file says in which form. Default: the usual form of the kind, in the run."""
    card = read_model_card(run, kind, model=model, facts=facts)
    file = out or run / f"card-{kind}-{card.model}{EXTENSIONS[kind]}"
    write = WRITERS.get((kind, file.suffix))
    if write is None:
        endings = ", ".join(ending for of, ending in WRITERS if of == kind)
        raise ConfigError(f"a {kind} card is not written as '{file.suffix}'", file=file, hint=f"end it in {endings}")
    write_atomically(file, write(card))
    return WrittenCard(file, len(card.items), card.n_filled, card.summary)


def write_facts(file: Path) -> None:
    """An empty facts file, to be filled in; one that exists is kept."""
    if file.exists():
        raise InputError("the file exists already", file=file, hint="give another name")
    write_atomically(file, facts_template())


def write_digest(run: Path, file: Path) -> None:
    """A run for a committee, as PDF or slides by the ending of the file."""
    from palpate.report.committee import digest
    from palpate.report.committee.pdf import as_pdf
    from palpate.report.committee.slides import as_pptx

    write = {".pdf": as_pdf, ".pptx": as_pptx}.get(file.suffix)
    if write is None:
        raise ConfigError("a digest is a .pdf or a .pptx file", file=file, hint="end the name in one of these")
    directory = RunDirectory(run)
    table1 = directory.read_table("data", "table1")
    write_atomically(file, write(digest(directory.read_manifest(), directory.read_results(), table1)))
