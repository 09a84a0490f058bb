"""What people read: the texts of one language from one file, `texts/en.yaml`, problems as keys of them, and templates.

Another language is another file with the same keys (`--texts FILE.yaml`); what it lacks is shown in English. What comes
from palpate itself stays English: reports, names of audits and characteristics, and what is wrong inside a file.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from palpate.errors import ConfigError, InputError
from palpate.files import read_resource, read_yaml
from palpate.report import typeset
from palpate.report.html import template_text

_PACKAGE = "palpate.workbench"
_LANGUAGE = "language"


class PageTexts:
    """The sentences of the pages: `texts("words.progress", done=3, n=49)`.

    >>> PageTexts()("words.progress", done=3, n=49)
    '3 of 49 rated'
    """

    def __init__(self, file: Path | None = None) -> None:
        self._known = {**_english(), **({} if file is None else read_texts(file))}
        self.language = self._known[_LANGUAGE]

    def __call__(self, key: str, **values: object) -> str:
        """A sentence, filled in."""
        return self._known[key].format(**values)

    def get(self, key: str, default: str) -> str:
        """A word that needs no filling in, or what is shown where there is none."""
        return self._known.get(key, default)

    def keys(self) -> frozenset[str]:
        """The names of all sentences."""
        return frozenset(self._known)


@cache
def _english() -> dict[str, str]:
    return dict(_flat(read_resource(_PACKAGE, "texts/en.yaml"), ""))


def read_texts(file: Path) -> dict[str, str]:
    """The sentences of another language; refuses keys that no page has, and what can't be filled in."""
    found, english = {}, _english()
    for key, value in _flat(read_yaml(file, needs="the keys of texts/en.yaml").plain(), ""):
        if key not in english:
            near = difflib.get_close_matches(key, english, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "take the keys of texts/en.yaml"
            raise ConfigError(f"no page has the text '{key}'", file=file, hint=hint)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"'{key}' is not a text", file=file, hint="write it in quotes")
        wrong = _wrong_field(value, english[key])
        if wrong is not None:
            there = ", ".join(sorted(_fields(english[key]))) or "nothing"
            raise ConfigError(f"'{key}': {wrong}", file=file, hint=f"what is filled in here: {there}")
        found[key] = value
    return found


def _fields(text: str) -> set[str]:
    return {f"{{{name}}}" for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def _wrong_field(text: str, english: str) -> str | None:
    """What a sentence asks for that nobody gives it: only plain names of the English one are filled in."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return "a brace is not closed"
    for _, name, how, kind in parts:
        if name is not None and (f"{{{name}}}" not in _fields(english) or how or kind):
            return f"'{{{name}}}' is not filled in"
    return None


def _flat(nested: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", " ".join(value.split()) if isinstance(value, str) else value


class BenchProblem(InputError):
    """Something that a page does not take; `str()` is the English sentence, as the command line prints it.

    >>> print(BenchProblem("no_file"))
    no file was chosen.
    """

    def __init__(self, key: str, **values: str | int) -> None:
        self.key, self.values = key, values
        said = PageTexts()(f"problems.{key}", **values)
        super().__init__(said if said[1:2].isupper() else said[:1].lower() + said[1:])

    def said(self, texts: PageTexts) -> str:
        """The sentence in the language of the page; a field is called what its page calls it."""
        values = dict(self.values)
        if "field" in values:
            values["field"] = texts.get(f"fields.{values['field']}", str(values["field"]))
        return texts(f"problems.{self.key}", **values)


def sentence_of(error: Exception, texts: PageTexts) -> str:
    """What a person is told: the workbench's own sentence, or palpate's, which is in English."""
    if isinstance(error, BenchProblem):
        return error.said(texts)
    return texts("problems.told", sentence=str(error))


def page_templates(texts: PageTexts) -> Environment:
    """The workbench's templates, and those of the report that they use."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(_PACKAGE), PackageLoader("palpate.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["t"] = texts
    environment.filters["count"] = typeset.integer
    environment.filters["day"] = typeset.date
    environment.filters["moment"] = _moment
    environment.filters["percent"] = typeset.percent
    return environment


def _moment(seconds: float) -> str:
    """A time as day and minute, in the time zone of the server."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


@cache
def static_files() -> dict[str, tuple[str, str]]:
    """What pages load besides themselves, with its media type: one style sheet, one script."""
    here = files(_PACKAGE).joinpath("static")
    own = {name: here.joinpath(name).read_text(encoding="utf-8") for name in ("bench.css", "bench.js")}
    styles = template_text("theme.css") + template_text("report.css") + own["bench.css"]
    return {"bench.css": (styles, "text/css"), "bench.js": (own["bench.js"], "text/javascript")}
