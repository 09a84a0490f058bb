"""`palpate init`: an `audit.yaml` for a table, with guessed roles and their reasons in comments."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from palpate import registry
from palpate.data.tables import TableSpec, read_cohort
from palpate.data.tables.guesses import Guess, GuessedTable, delimiter_of, guess_table, sampled
from palpate.errors import ConfigError, InputError
from palpate.files import write_atomically

_PLAIN = re.compile(r"[A-Za-z_][\w./+-]*")
_READ_OTHERWISE = {"yes", "no", "true", "false", "on", "off", "y", "n", "null"}
_MOSTLY = 0.5
"""The share of a column's values that must be case ids, for it to be the column of them."""
_ROLES = ("case", "patient", "stay", "text", "time", "split", "image", "prior", "weight")
_MORE = {
    "characteristics": ("{alter: [gender, age]}", "what changes when only the patient's age or gender changes?"),
    "robustness": ("{}", "does it hold when the same note is written differently?"),
    "vocabulary": ("{words: predictive, filters: [uniform]}", "which words move the prediction?"),
}


class Written(NamedTuple):
    """The new configuration, what was guessed, and what is still to do."""

    file: Path
    table: GuessedTable
    to_do: tuple[str, ...]


def init(table: Path, *, out: Path | None = None, models: Sequence[str] = (), force: bool = False) -> Written:
    """Look at a table and write a configuration for it; `out` is `audit.yaml` beside the table by default."""
    file = out or table.parent / "audit.yaml"
    if file.suffix not in (".yaml", ".yml"):
        raise ConfigError("a configuration is a YAML file", file=file, hint="give a name that ends in .yaml")
    if file.exists() and not force:
        raise ConfigError("the file exists already", file=file, hint="choose another --out, or add --force")
    named = _named(models)
    guessed = guess_table(table)
    entry = _cohort(guessed, table, file)
    lines = [
        f"# Written by `palpate init {table.name}`: roles are guessed from names and from the first rows.",
        f"# Correct what is wrong, then run: palpate check {file.name} && palpate audit {file.name}",
        *entry,
        *_unused(guessed),
        *_models(named, {name: _case_column(source, table, guessed, file) for name, source in named.items()}),
        *_audits(guessed, named),
    ]
    write_atomically(file, "\n".join(lines) + "\n")
    return Written(file, guessed, tuple(_to_do(guessed, table, named)))


def spec_of(guessed: GuessedTable, table: Path) -> TableSpec:
    """The guesses as the entry `cohort:`."""
    roles = {role: guess.column for role in _ROLES for guess in guessed.of(role)}
    labels = guessed.of("label")
    listed = guessed.of("label_list") if not labels else []
    return TableSpec(
        file=table,
        **roles,  # type: ignore[arg-type]
        labels=tuple(guess.column for guess in labels) or None,
        positive={guess.column.removeprefix("label:"): guess.value for guess in labels if guess.value} or None,
        label_list={"column": listed[0].column, "delimiter": listed[0].value or ";"} if listed else None,  # type: ignore[arg-type]
        attributes=tuple(guess.column for guess in guessed.of("attribute")),
        encoding=guessed.layout.encoding,
    )


def _named(models: Sequence[str]) -> dict[str, str]:
    """Models by name: `--model NAME=SOURCE`, or a source, which gets the name of its file or folder."""
    named: dict[str, str] = {}
    for given in models:
        name, equals, source = given.partition("=")
        if not equals or ":" in name:
            name, source = "", given
        scheme, colon, target = source.partition(":")
        if not colon or not target or scheme not in registry.names("models"):
            schemes = ", ".join(f"{each}:" for each in registry.names("models"))
            raise ConfigError(f"--model {given}: not of the form scheme:target", hint=f"the schemes are {schemes}")
        name = name or re.sub(r"\W+", "-", Path(target.rpartition(":")[2]).stem).strip("-") or scheme
        if name in named:
            raise ConfigError(f"--model {given}: two models are named '{name}'", hint="write --model NAME=SOURCE")
        named[name] = source
    return named


# --- the file -----------------------------------------------------------------------------------------------


def _cohort(guessed: GuessedTable, table: Path, file: Path) -> list[str]:
    """The entry `cohort:`, one role per line with its reason."""
    relative = os.path.relpath(table.absolute(), file.absolute().parent)
    lines = ["cohort:", _line("file", _q(relative), f"{_more(guessed.n_rows)} rows were looked at")]
    if guessed.layout.encoding is not None:
        lines.append(_line("encoding", guessed.layout.encoding, "the file is not UTF-8"))
    for role in _ROLES:
        lines += [_line(role, _q(guess.column), guess.why) for guess in guessed.of(role)]
    lines += _label_lines(guessed)
    attributes = guessed.of("attribute")
    if attributes:
        lines.append("  attributes:")
        lines += [f"    - {_q(guess.column)}  # {guess.why}" for guess in attributes]
    if not guessed.of("patient"):
        lines.append("  # patient: COLUMN  # no column is named like a patient's id: each case counts as a patient")
    if not guessed.of("split"):
        lines.append("  # split: COLUMN  # no column holds train, validation and test: all cases are audited")
    return lines


def _label_lines(guessed: GuessedTable) -> list[str]:
    labels = guessed.of("label")
    if labels:
        lines = ["  labels:", *(f"    - {_q(guess.column)}  # {guess.why}" for guess in labels)]
        positive = {guess.column.removeprefix("label:"): guess.value for guess in labels if guess.value}
        if positive:
            named = ", ".join(f"{_q(name)}: {_q(value)}" for name, value in positive.items())
            lines.append(f"  positive: {{{named}}}  # the value that means 1")
        return lines
    for guess in guessed.of("label_list")[:1]:
        mark = json.dumps(guess.value or ";")
        return [f"  label_list: {{column: {_q(guess.column)}, delimiter: {mark}}}  # {guess.why}"]
    for guess in guessed.of("outcome")[:1]:
        name, value = _q(guess.column), _q(guess.value or "")
        return [
            f"  # labels: [{name}]  # {guess.why}",
            f"  # positive: {{{name}: [{value}]}}  # list the values that mean 1; all others mean 0",
        ]
    return ["  # labels: [COLUMN]  # no column has two values: name what the models predict"]


def _unused(guessed: GuessedTable) -> list[str]:
    left = [guess for guess in guessed.guesses if guess.role is None]
    return ["# Not used:", *(f"#   {_q(guess.column)}: {guess.why}" for guess in left)] if left else []


def _case_column(source: str, table: Path, guessed: GuessedTable, file: Path) -> str | None:
    """The column of a table of scores that holds the case ids, where it is not called as it would be looked for."""
    cases = [guess.column for guess in guessed.of("case")]
    scores = file.absolute().parent / source.partition(":")[2]
    if not source.startswith("predictions:") or not cases or not scores.is_file():
        return None
    try:
        columns, known = sampled(scores), set(sampled(table, guessed.layout)[cases[0]])
    except InputError:  # `palpate check` says what is wrong with it
        return None
    if {"case_id", "input_id", cases[0]} & set(columns):
        return None
    shared = {name: len(known & set(cells)) / max(len(set(cells)), 1) for name, cells in columns.items()}
    best = max(shared, key=lambda name: shared[name], default=None)
    return best if best is not None and shared[best] > _MOSTLY else None


def _models(named: dict[str, str], case: Mapping[str, str | None]) -> list[str]:
    if named:
        return ["models:", *(f"  {_q(name)}: {_entry(source, case[name])}" for name, source in named.items())]
    return [
        "models:  # name at least one, as in",
        "  # bert: hf:models/bert              # a transformers checkpoint",
        "  # lr: sklearn:models/lr.skops       # a scikit-learn pipeline",
        "  # vendor: predictions:scores.csv    # probabilities that were computed elsewhere",
    ]


def _entry(source: str, case: str | None) -> str:
    return _q(source) if case is None else f"{{source: {_q(source)}, case: {_q(case)}}}  # its values are case ids"


def _audits(guessed: GuessedTable, named: dict[str, str]) -> list[str]:
    lines = ["audits:", "  performance: {}"]
    by = [_q(guess.column.removeprefix("attribute:")) for guess in guessed.of("attribute")][:6]
    if by:
        lines.append(f"  subgroups: {{by: [{', '.join(by)}]}}  # for whom is it worse, and by how much?")
    looked_up = bool(named) and all(source.startswith("predictions:") for source in named.values())
    if guessed.of("text") and not looked_up:
        lines += [f"  # {name}: {options}  # {asks}" for name, (options, asks) in _MORE.items()]
    return lines


def _line(key: str, value: str, why: str) -> str:
    return f"  {key}: {value}  # {why}"


def _more(n: int) -> str:
    from palpate.data.tables.guesses import SAMPLE

    return f"the first {n:,}" if n >= SAMPLE else f"{n:,}"


def _q(text: str) -> str:
    """A text as YAML reads it back."""
    if _PLAIN.fullmatch(text) and text.lower() not in _READ_OTHERWISE:
        return text
    if re.fullmatch(r"[a-z]+:[\w./:+-]+", text):
        return text
    return json.dumps(text, ensure_ascii=False)


# --- what is left to do -------------------------------------------------------------------------------------


def _missing_label(guessed: GuessedTable) -> str:
    for guess in guessed.of("outcome"):
        return f"Name the label: column '{guess.column}' is {guess.why}; list in `positive` which of them mean 1."
    return "Name the label columns: no column of the table has two values."


def _to_do(guessed: GuessedTable, table: Path, named: dict[str, str]) -> list[str]:
    """What keeps the configuration from running."""
    found = []
    if not guessed.of("label") and not guessed.of("label_list"):
        found.append(_missing_label(guessed))
    else:
        try:
            read_cohort(spec_of(guessed, table))
        except InputError as error:
            found.append(f"The table can't be read yet: {error}")
    if not named:
        found.append("Name a model in `models:`, or run it again with --model SOURCE --force.")
    return found


def describe(guess: Guess) -> str:
    """A guess in one line, for the terminal."""
    return f"{guess.column}: {guess.role.replace('_', ' ') if guess.role else 'not used'} ({guess.why})"


def describe_layout(table: Path, guessed: GuessedTable) -> str | None:
    """What is unusual about the file, for the terminal."""
    mark = delimiter_of(table, guessed.layout)
    parts = [f"encoding {guessed.layout.encoding}"] if guessed.layout.encoding else []
    parts += [f"cells separated by {mark!r}"] if mark not in (None, ",") else []
    return ", ".join(parts) or None
