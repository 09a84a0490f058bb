"""Findings on the page: by question, each sentence once and whole, with links from the scorecard and back."""

from __future__ import annotations

import re
from dataclasses import replace

from palpate.report.findings import KINDS
from palpate.report.html import render
from palpate.results import AuditResult, Finding, estimates_frame
from palpate.results.verdicts import Answer

from .reading import Reader
from .sample import Sample


def result(*findings: Finding) -> AuditResult:
    return AuditResult("performance", estimates_frame([]), findings=findings)


def test_findings_are_grouped_by_question_and_worries_come_first(readmission_html: str) -> None:
    summary = readmission_html[: readmission_html.index('<section id="audit-')]
    kinds = re.findall(r'<li class="finding (\w+)">', summary)
    assert kinds == ["concern", "concern", "concern", "caution"]
    sections = Reader(readmission_html[len(summary) :]).text
    assert re.search(r"Is it as good as the other models\? .*Acceptable bert-discharge tells", sections)
    assert "What else to know Fact Clinicians agree" in sections


def test_every_sentence_stands_once_and_whole(readmission: Sample, readmission_html: str) -> None:
    text = Reader(readmission_html).text
    for sentence in {each.sentence for result in readmission.results for each in result.findings}:
        assert text.count(" ".join(sentence.split())) == 1, sentence
    long = "It is lower for 'a', 'b' and 9 more. " * 40 + "The end."
    asks = Answer(question="travel", asks="Does it travel?", model="m", verdict="acceptable", metric="auroc")
    findings = tuple(Finding(sentence=f"{k} {long}", kind=kind, question="travel") for k, kind in enumerate(KINDS))
    one = replace(result(*findings), answers=(asks,))
    text = Reader(render({"models": [{"name": "m"}], "facts": [long]}, [one], gate=None)).text
    assert text.count("The end.") == len(KINDS) + 1
    assert "…" not in text


def test_a_row_of_the_scorecard_leads_to_its_finding_and_on_to_the_section_and_back() -> None:
    def answer(question: str, verdict: str) -> Answer:
        asks = f"Is it {question}?"
        return Answer(question=question, asks=asks, model="m", verdict=verdict, metric="auroc")  # type: ignore[arg-type]

    findings = (Finding(sentence="Bad.", kind="concern", question="good"), Finding(sentence="Fine.", question="sound"))
    one = replace(result(*findings), answers=(answer("good", "concern"), answer("sound", "acceptable")))
    html = render({"models": [{"name": "m"}]}, [one], gate=None)
    assert '<a href="#found-performance-good">Is it good?</a>' in html
    assert '<a href="#audit-performance-sound">Is it sound?</a>' in html
    found = html[html.index('id="found-performance-good"') :]
    assert found.index('href="#audit-performance-good"') < found.index("Bad.")
    section = html[html.index('<section id="audit-performance"') :]
    assert section.index('id="audit-performance-good"') < section.index('href="#found-performance-good"')
    assert "Fine." in section
    assert "Bad." not in section


def test_what_puts_every_answer_in_doubt_stands_before_the_scorecard_and_once() -> None:
    inverted = Finding(sentence="m ranks patients the wrong way round.", kind="concern")
    said = Finding(sentence="Said once.", kind="caution")
    html = render({"models": [{"name": "m"}]}, [result(inverted, said, said)], gate=None)
    text = Reader(html[: html.index('<section id="audit-')]).text
    assert text.index("Read this first") < text.index("ranks patients") < text.index("What we found")
    assert text.count("ranks patients") == text.count("Said once.") == 1
