"""A user's own perturbations: replacements in a YAML file, or a Python function of a note.

    name: house_style            # one word; the name in results
    expects: same                # or `down only`, `up only`: which way the prediction may go (default: same)
    tolerance: 0.02              # optional: the largest change of the mean risk that does not matter
    about: in our house style    # optional: what is done to a note, after "writing the note"
    replace:                     # whole words, found in any case; capitals follow what was written
      pt: patient
      right sided: right-sided

A function gets the text of a note and returns the new text, a list of (start, end, replacement), or None where there is
nothing to change. With a second parameter it gets a numpy Generator too.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from palpate.cases.edits import Edit
from palpate.errors import ConfigError, kind_of
from palpate.files import YamlNode, read_yaml
from palpate.perturb.robustness import BUILT_IN, Expectation, Form, Perturbation
from palpate.perturb.robustness.reading import Rng, WrittenNote, like

OWN = "own"
"""The question that users' own perturbations answer."""
EXPECTATIONS: tuple[str, ...] = get_args(Expectation)
_NAME = re.compile(r"[A-Za-z]\w{0,40}")
_KEYS = ("name", "expects", "tolerance", "about", "replace")


def load_perturbation(path: Path) -> Perturbation:
    """A perturbation from a YAML file; raises `ConfigError` with file and line."""
    root = read_yaml(path, needs="`name` and `replace`")
    given = root.mapping("a perturbation", known=_KEYS)
    name = root.require("name", "a perturbation")
    pairs = _pairs(root.require("replace", "a perturbation"))
    if not _NAME.fullmatch(name.text("`name`")) or name.text("`name`") in BUILT_IN:
        raise name.error(
            f"'{name.text('`name`')}' can't be its name", hint="use one word that palpate does not use yet"
        )
    expects = given["expects"].choice("`expects`", EXPECTATIONS) if "expects" in given else "same"
    digest = hashlib.blake2b(repr(sorted(pairs.items())).encode(), digest_size=8).hexdigest()
    return Perturbation(
        name=name.text("`name`"),
        question=OWN,
        about=given["about"].text("`about`") if "about" in given else f"with {name.text('`name`')}",
        forms=(("changed", _replacing(pairs)),),
        expects=cast(Expectation, expects),
        tolerance=given["tolerance"].number("`tolerance`", low=0.0001, high=1.0) if "tolerance" in given else None,
        source=f"{path.name} {digest}",
    )


def _pairs(node: YamlNode) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for form, into in node.mapping("`replace`").items():
        if not re.search(r"\w", form):
            raise node.error(f"'{form}' in `replace` has no letter or digit", key=form)
        if not isinstance(into.content, str):
            raise into.error(f"what '{form}' becomes must be a text")
        if form.lower() in pairs:
            raise node.error(f"'{form}' is in `replace` twice", key=form)
        pairs[form.lower()] = into.content
    if not pairs:
        raise node.error("`replace` is empty", hint="give at least one line `word: replacement`")
    return pairs


def _replacing(pairs: Mapping[str, str]) -> Form:
    longest = sorted(pairs, key=len, reverse=True)
    forms = "|".join(r"\s+".join(map(re.escape, form.split())) for form in longest)
    pattern = re.compile(rf"(?<!\w)(?:{forms})(?!\w)", re.IGNORECASE)

    def form(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
        edits = []
        for match in pattern.finditer(note.text):
            into = like(pairs[" ".join(match.group().lower().split())], match.group())
            if into != match.group():
                edits.append(Edit(*match.span(), into))
        return edits or "none of the words of the file"

    return form


def from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    expects: Expectation = "same",
    tolerance: float | None = None,
    about: str | None = None,
    source: str | None = None,
) -> Perturbation:
    """A perturbation from a function of a note; `source` is its version."""
    own = name or str(getattr(function, "__name__", "function"))
    if not _NAME.fullmatch(own) or own in BUILT_IN:
        raise ConfigError(f"'{own}' can't be the name of a perturbation", hint="give it another one with `name`")
    if expects not in EXPECTATIONS:
        raise ConfigError(f"perturbation '{own}': `expects` is '{expects}'", hint=f"use {', '.join(EXPECTATIONS)}")
    if tolerance is not None and not 0.0 < tolerance <= 1.0:
        raise ConfigError(f"perturbation '{own}': `tolerance` is {tolerance}", hint="use a number above 0, up to 1")
    return Perturbation(
        name=own,
        question=OWN,
        about=about or f"with {own}",
        forms=(("changed", _calling(function, own)),),
        expects=expects,
        tolerance=tolerance,
        source=source or f"function {own}",
    )


def _calling(function: Callable[..., Any], name: str) -> Form:
    try:
        parameters = inspect.signature(function).parameters.values()
        needed = [
            p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        needed = []

    def form(note: WrittenNote, rng: Rng) -> list[Edit] | str:
        try:
            made = function(note.text, rng) if len(needed) > 1 else function(note.text)
        except Exception as error:
            problem = f"perturbation '{name}': the function failed ({kind_of(error)})"
            raise ConfigError(problem, hint="see the traceback with --debug") from error
        edits = _as_edits(note.text, made, name)
        return edits or "the function changes nothing"

    return form


def _as_edits(text: str, made: Any, name: str) -> list[Edit]:
    """What a function returned, as edits that are sorted and do not overlap."""
    if made is None:
        return []
    if isinstance(made, str):
        return [] if made == text else [_difference(text, made)]
    problem = ConfigError(
        f"perturbation '{name}': the function returned no text and no list of (start, end, replacement)",
        hint="spans must lie in the text and must not overlap; return None to change nothing",
    )
    if not isinstance(made, Sequence):
        raise problem
    edits, position = [], 0
    try:
        for start, end, new in sorted(made):
            edits.append(Edit(int(start), int(end), new))
    except (TypeError, ValueError):
        raise problem from None
    for edit in edits:
        if not isinstance(edit.text, str) or not position <= edit.start <= edit.end <= len(text):
            raise problem
        position = edit.end
    return [edit for edit in edits if text[edit.start : edit.end] != edit.text]


def _difference(before: str, after: str) -> Edit:
    """The one edit that turns a text into another: all between what they share at both ends."""
    shortest = min(len(before), len(after))
    start = next((k for k in range(shortest) if before[k] != after[k]), shortest)
    rest = shortest - start
    end = next((k for k in range(rest) if before[-1 - k] != after[-1 - k]), rest)
    return Edit(start, len(before) - end, after[start : len(after) - end])
