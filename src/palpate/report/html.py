"""The report as one HTML string: self-contained, offline, at most 5 MB, the same bytes for the same run.

The first screen answers; a section per audit explains; the last sections say how it was made and what the words
mean. A Content-Security-Policy with hashes lets only the report's own scripts run, and lets nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from palpate.report import findings, headline, typeset
from palpate.report.blocks import ExamplesView, FigureView, TableView, view_chart, view_examples, view_table
from palpate.report.charts import ChartPanel, static_svg
from palpate.report.provenance import used_in, view_audit, view_provenance
from palpate.report.scorecard import view_scorecard
from palpate.results import AuditResult, Chart, Examples, Table

GateSummary = Sequence[Mapping[str, Any]]
"""One mapping per condition: `condition`, `passed` and `detail`."""

MAX_BLOCK_BYTES = 2_300_000
MAX_SVG_BYTES = 900_000
MAX_ONE_SVG = 120_000
MAX_SVGS = 24
FULL_BELOW = 30_000
"""Once a block did not fit, a section with fewer bytes left than this tries no other, and cuts no table."""
QUESTIONS = {
    "data": "Can these cases answer the questions, and are they new to the model?",
    "performance": "How good is it on held-out cases, and how sure are we?",
    "subgroups": "For whom is it worse, and by how much?",
    "slices": "Is there a group of patients that nobody named for whom it is worse?",
    "operating": "What does flagging at a threshold mean for the ward?",
    "recalibration": "Would its risks be right after a simple correction, and is that shown?",
    "drift": "Has it changed over time?",
    "vocabulary": "Which words move the prediction, and do clinicians agree that they should?",
    "characteristics": "What happens when only the patient's age, gender or ethnicity changes in the note?",
    "capabilities": "Does it handle negation, temporal order, sentiment and beneficial effects?",
    "evidence": "Does it point at the text that a professional coder would point at?",
    "robustness": "Does it hold when the same note is written differently?",
    "context": "How much of its performance is the patient's history, known before the test?",
}


class Section(NamedTuple):
    """One audit, as the template sets it."""

    audit: str
    name: str
    question: str
    groups: tuple[findings.QuestionGroup, ...]
    blocks: tuple[Markup, ...]
    omitted: tuple[str, ...]
    withheld: int
    provenance: tuple[tuple[str, str], ...]
    n_estimates: str
    source: str


@dataclass
class _Room:
    """The bytes that remain for blocks and drawings."""

    blocks: int = MAX_BLOCK_BYTES
    svg: int = MAX_SVG_BYTES
    drawings: int = MAX_SVGS

    def draw(self, panel: ChartPanel) -> Markup:
        """The panel as SVG, or nothing where that would make the file too large or too slow to make."""
        if self.drawings <= 0 or self.svg <= 0:
            return Markup()
        self.drawings -= 1
        svg = static_svg(panel.spec, name=f"drawing-{MAX_SVGS - self.drawings}")
        size = len(svg.encode())
        if size > min(MAX_ONE_SVG, self.svg):
            return Markup()
        self.svg -= size
        return Markup(svg)


def _has_note_text(results: Sequence[AuditResult]) -> bool:
    return any(isinstance(block, Examples) and block.has_note_text for result in results for block in result.blocks)


def render(manifest: Mapping[str, Any], results: Sequence[AuditResult], *, gate: GateSummary | None = None) -> str:
    """The report of a run.

    Note text is shown only if the manifest says `include_text`; blocks that hold some are left out otherwise.
    """
    environment = page_environment()
    sections = list(_sections(environment, manifest, results))
    scripts = chart_scripts() if any(isinstance(b, Chart) for r in results for b in r.blocks) else ()
    page = {
        "title": typeset.shorten(manifest.get("title"), 200) or "Audit of a clinical prediction model",
        "created": typeset.date(manifest.get("created")),
        "version": manifest.get("palpate") or "",
        "include_text": bool(manifest.get("include_text")) and _has_note_text(results),
        "models": _names(headline.audited(manifest)),
        "cohorts": [headline.view_cohort(cohort) for cohort in (manifest.get("cohorts") or [])[:6]],
        "facts": [str(fact) for fact in (manifest.get("facts") or [])[:6]],
        "scorecard": view_scorecard(results, manifest),
        "comparison": headline.compare(results, manifest),
        "found": findings.view_findings(results),
        "gate": _gate(gate),
        "sections": sections,
        "made": view_provenance(manifest),
    }
    content = Markup(environment.get_template("content.html.j2").render(page))
    return environment.get_template("page.html.j2").render(
        page,
        content=content,
        terms=used_in(content.striptags()),
        styles=Markup(template_text("theme.css") + template_text("report.css")),
        scripts=scripts,
        policy=content_policy(scripts),
    )


@cache
def page_environment() -> Environment:
    """Templates that escape everything and refuse what is not given; they are compiled once per process."""
    environment = Environment(
        loader=PackageLoader("palpate.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["count"] = typeset.integer
    environment.filters["ticked"] = _ticked
    return environment


def _ticked(text: str) -> Markup:
    """Plain text with what stands between backticks set as code."""
    return Markup(re.sub("`([^`<>]+)`", r"<code>\1</code>", str(escape(text))))


def template_text(name: str) -> str:
    """A file beside the templates."""
    return files("palpate.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def chart_scripts() -> tuple[Markup, ...]:
    """Vega with its embedder, and the page's own script."""
    return Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")), Markup(template_text("report.js"))


def content_policy(scripts: Sequence[str]) -> str:
    """A policy that loads nothing and runs only these scripts."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _names(models: Sequence[str]) -> str:
    """The models' names on one line."""
    shown = [typeset.shorten(name, 80) for name in models[:6]]
    return typeset.listing([*shown, f"{len(models) - 6} more"] if len(models) > 6 else shown)


def _gate(gate: GateSummary | None) -> list[dict[str, Any]] | None:
    if gate is None:
        return None
    return [
        {
            "condition": typeset.shorten(row.get("condition"), 300),
            "passed": bool(row.get("passed")),
            "detail": typeset.shorten(row.get("detail"), 500),
        }
        for row in list(gate)[:100]
    ]


def _sections(
    environment: Environment, manifest: Mapping[str, Any], results: Sequence[AuditResult]
) -> Iterator[Section]:
    """One section per audit; bytes that it does not use are left to the others."""
    room = _Room()
    drawn = [_SectionBlocks(environment, manifest, result) for result in results]
    for index, each in enumerate(drawn):
        each.fill(room, room.blocks // (len(drawn) - index))
    for each in drawn:
        each.fill(room, room.blocks, cut=True)
    for each, result in zip(drawn, results, strict=True):
        yield Section(
            audit=result.audit,
            name=result.audit.replace("_", " ").capitalize(),
            question=QUESTIONS.get(result.audit, ""),
            groups=tuple(findings.section_groups(result)),
            blocks=tuple(each.shown[index] for index in sorted(each.shown)),
            omitted=each.omitted,
            withheld=each.withheld,
            provenance=view_audit(result),
            n_estimates=typeset.integer(result.estimates.height),
            source=_source(result),
        )


def _source(result: AuditResult) -> str:
    return f"results/{result.audit}.parquet"


class _SectionBlocks:
    """An audit's blocks: those that are set as HTML, and those for which there was no room yet."""

    def __init__(self, environment: Environment, manifest: Mapping[str, Any], result: AuditResult) -> None:
        self._module = environment.get_template("blocks.html.j2")
        self._order, self._result = headline.models_of(manifest), result
        with_text = bool(manifest.get("include_text"))
        self._waiting = {
            index: block
            for index, block in enumerate(result.blocks, start=1)
            if with_text or not (isinstance(block, Examples) and block.has_note_text)
        }
        self.withheld = len(result.blocks) - len(self._waiting)
        """How many may not be shown (note text)."""
        self.shown: dict[int, Markup] = {}

    @property
    def omitted(self) -> tuple[str, ...]:
        """The titles of those that did not fit."""
        return tuple(typeset.shorten(block.title, 100) for block in self._waiting.values())

    def fill(self, room: _Room, share: int, *, cut: bool = False) -> None:
        """Set what fits into some bytes; `cut` shows the first rows of a table that does not fit whole."""
        skipped = False
        for index, block in list(self._waiting.items()):
            if skipped and share < FULL_BELOW:
                return
            html, size = self._set(index, block, room)
            if size > share and cut and isinstance(block, Table) and share >= FULL_BELOW:
                html, size = self._set(index, block, room, n_rows=max(1, int(0.8 * len(block.rows) * share / size)))
            if size > share:
                skipped = True
                continue
            share -= size
            room.blocks -= size
            self.shown[index] = html
            del self._waiting[index]

    def _set(
        self, index: int, block: Table | Chart | Examples, room: _Room, n_rows: int | None = None
    ) -> tuple[Markup, int]:
        """A block as HTML, and its bytes without drawings, which are counted on their own."""
        view = _view(block, self._order, _source(self._result), room, n_rows)
        html = Markup(self._module.render(block=view, id=f"{self._result.audit}-{index}"))
        return html, len(html.encode()) - _drawn(view)


def blocks_as_html(blocks: Sequence[Table | Chart], *, order: Sequence[str] = ()) -> list[Markup]:
    """Blocks of a page that is not a report; `order` gives series their colours."""
    module, room = page_environment().get_template("blocks.html.j2"), _Room()
    return [
        Markup(module.render(block=_view(block, order, "", room), id=f"block-{index}"))
        for index, block in enumerate(blocks, start=1)
    ]


def _drawn(view: TableView | FigureView | ExamplesView) -> int:
    """Bytes that were already counted as drawings."""
    return sum(len(panel.svg.encode()) for panel in view.panels) if isinstance(view, FigureView) else 0


def _view(
    block: Table | Chart | Examples, order: Sequence[str], source: str, room: _Room, n_rows: int | None = None
) -> TableView | FigureView | ExamplesView:
    if isinstance(block, Table):
        return view_table(block, source=source, n_rows=n_rows)
    if isinstance(block, Examples):
        return view_examples(block)
    figure, drawing = view_chart(block, order=order, source=source)
    drawn = [replace(view, svg=room.draw(panel)) for view, panel in zip(figure.panels, drawing.panels, strict=True)]
    return replace(figure, panels=tuple(drawn))
