"""Pages from templates that escape everything, with the texts of one language from one file, `texts/en.yaml`.

Another language is another file with the same keys; what it lacks is shown in English.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from palpate.errors import ConfigError
from palpate.files import read_resource
from palpate.report import typeset
from palpate.report.html import template_text

ENGLISH = "en"
_PACKAGE = "palpate.workbench"


class PageTexts:
    """The sentences of the pages: `texts("words.progress", done=3, n=49)`.

    >>> PageTexts()("words.progress", done=3, n=49)
    '3 of 49 rated'
    """

    def __init__(self, language: str = ENGLISH) -> None:
        self.language = language
        self._known = {**_read(ENGLISH), **_read(language)}

    def __call__(self, key: str, **values: object) -> str:
        """A sentence, filled in."""
        return self._known[key].format(**values)

    def keys(self) -> frozenset[str]:
        """The names of all sentences."""
        return frozenset(self._known)


@cache
def _read(language: str) -> dict[str, str]:
    try:
        nested = read_resource(_PACKAGE, f"texts/{language}.yaml")
    except FileNotFoundError:
        raise ConfigError(f"there are no texts in language '{language}'") from None
    return dict(_flat(nested, ""))


def _flat(nested: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", " ".join(str(value).split())


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
