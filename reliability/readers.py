"""What is fuzzed: every reader with files that it can read, from which broken ones are made.

A new reader joins with one line in `READERS`: its name, the end of its files' names, what is called with the path, and
contents that are right.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl

from palpate.cases.edits import Inputs
from palpate.config import load_config
from palpate.data.annotations import mdace, uima_cas, webanno
from palpate.data.annotations.evidence_tables import read_evidence, read_note_places
from palpate.data.annotations.reviews import read_notes, read_review
from palpate.data.annotations.webanno import LayerSpan
from palpate.data.codes.gem_tables import read_cms
from palpate.data.lexicons import read_ratings, read_replacements, read_words
from palpate.data.lexicons.phrases import read_phrases
from palpate.data.suites import read_suite_file
from palpate.data.tables import TableSpec, read_cohort
from palpate.data.tables.guesses import guess_table
from palpate.models import Model, Probabilities
from palpate.models.adapters.predictions import load as load_predictions
from palpate.perturb.characteristics import load_definition
from palpate.perturb.robustness.own import load_perturbation
from palpate.run.conditions import parse as parse_condition
from palpate.run.directory import RunDirectory
from palpate.run.execute.local import checked
from reliability import hospitals, sheets, trained
from reliability.seeds import Reader


def _cohort(path: Path) -> object:
    return read_cohort(TableSpec(file=path, text="text", labels=("sick",)), name="c", folder=path.parent)


def _gate(path: Path) -> object:
    return parse_condition(path.read_bytes().decode("utf-8", "replace"))


def _run(path: Path) -> object:
    folder = path.parent / "run"
    (folder / "results").mkdir(parents=True, exist_ok=True)
    content = path.read_bytes()
    for name in ("manifest.json", "results/data.json", "gate.json"):
        (folder / name).write_bytes(content)
    directory = RunDirectory(folder)
    for read in (directory.read_manifest, directory.read_gate, lambda: directory.read_result("data")):
        try:
            read()
        except Exception as error:
            if type(error).__name__ != "RunError":
                raise
    return None


class _Answering(Model):
    """A model that answers with what a file has."""

    labels, fingerprint = ("sick", "old"), "fuzzed"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def predict(self, inputs: Inputs) -> Probabilities:  # noqa: ARG002
        return self._answer  # type: ignore[no-any-return]


def _answers(path: Path) -> object:
    try:
        answer = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return checked("m", _Answering(answer), Inputs.from_texts(["one", "two"]))


def _settings(path: Path) -> object:
    """A configuration with the file as `--set`."""
    value = path.read_bytes().decode("utf-8", "replace").replace("\x00", "")
    good = path.with_name("good.yaml")
    good.write_bytes(_CONFIG)
    return load_config(good, overrides=(f"performance.{value}",))


_CONFIG = b"""title: An audit
cohort: {file: notes.csv, case: case_id, text: text, labels: [sick], attributes: [age, sex]}
models:
  m: {source: "predictions:answers.csv", labels: [sick]}
  two: [hf:a, hf:b]
audits:
  performance: {n_replicates: 200, threshold: 0.3}
  vocabulary: {words: [fever, cough], budget: {notes: 5}}
margins: {auroc: 0.02}
gate: [no concern, performance.auroc >= 0.7]
seed: 3
workers: 2
"""
_CSV = (
    b'case_id,patient_id,text,sick,age,split\n1,a,"fever, cough",1,70,test\n2,a,"said ""no""\nand left",0,61,test\n'
    b"3,b,\xc3\xa9l\xc3\xa8ve,1,,train\n"
)
_JSONL = b'{"case_id": "1", "text": "fever", "sick": 1}\n{"case_id": "2", "text": "none \\u00e9", "sick": 0}\n'
_CHART = json.dumps(
    {
        "hadm_id": 7,
        "comment": "",
        "notes": [
            {
                "note_id": 1,
                "category": "Discharge summary",
                "description": "Report",
                "annotations": [
                    {
                        **{"begin": 3, "end": 8, "code": "I10", "code_system": "ICD-10-CM", "type": "Human"},
                        **{"description": "hypertension", "covered_text": "fever"},
                    }
                ],
            }
        ],
    }
).encode()
_WEBANNO = (
    b"#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Code|value|status\n\n\n#Text=He has fever .\n"
    b"1-1\t0-2\tHe\t_\t_\t\n1-2\t3-6\thas\t_\t_\t\n1-3\t7-12\tfever\tR50[1]\tdone[1]\t\n1-4\t13-14\t.\t_\t_\t\n"
)
_CAS = uima_cas.write_json("He has fever.", [LayerSpan(7, 12, "webanno.custom.Code", {"value": "R50"})]).encode()
_SUITE = b"""suite: mine
about: A suite
labels: {positive: adverse, negative: none}
lexicons:
  drug: [aspirin, {value: ibuprofen, article: none, kind: oral}]
capabilities:
  - id: negation
    about: negated
    tests:
      - id: no
        type: MFT
        templates:
          - {id: a, text: "No {drug} gave me [pain|a rash].", label: none}
"""
_SUITE_CSV = b"capability,label,template\nnegation,0,No {drug} gave me pain\nnegation,1,{drug} gave me a rash\n"
_SUITE_JSONL = b'{"capability": "n", "label": 1, "text": "it hurt"}\n{"capability": "n", "label": 0, "text": "fine"}\n'
_GEM = b"A000  0010  00000\nI10   4019  10000\nE119  25000 10000\n"
_DEFINITION = rb"""name: smoking
insert: [noun, section]
sections: [Social History]
headers: [Tobacco]
groups:
  none: {}
  smoker: {sentence: [Smokes], phrase: [is a smoker], header: [current], signs: [patch], patterns: ['\d+ ppd']}
  never: {adjective: [lifelong], sentence: [Never smoked], against: [cigar], against_patterns: ['pack(?:s|-years)']}
"""
_PERTURBATION = b"name: short\nabout: Abbreviations\nreplace: {hypertension: HTN, diabetes: DM}\n"
_REVIEW = json.dumps(
    {"palpate_review": 1, "to": {"gender": "female"}, "marks": [{"note": 1, "altered": "ab", "mark": "right"}]}
).encode()
_RUN = json.dumps(
    {
        **{"schema": 1, "audits": {"data": {}}, "blocks": [], "findings": [{"sentence": "x"}], "answers": []},
        **{"fingerprints": {"a": "b"}, "provenance": {}},
    }
).encode()


def _parquet() -> bytes:
    import io

    out = io.BytesIO()
    pl.DataFrame({"case_id": ["1", "2"], "text": ["fever", "none"], "sick": [1, 0]}).write_parquet(out)
    return out.getvalue()


def _predictions(path: Path) -> object:
    return load_predictions(path.name, {}, folder=path.parent)


READERS = (
    Reader("configuration", ".yaml", load_config, (_CONFIG,), share=80),
    Reader("set", ".txt", _settings, (b"n_replicates=300", b"labels=[sick, {a: 1}]"), share=80),
    Reader(
        "gate",
        ".txt",
        _gate,
        (
            b"no concern",
            b"performance.auroc >= 0.7",
            b"performance.calibration is acceptable",
        ),
        share=80,
    ),
    Reader("csv", ".csv", _cohort, (_CSV, _CSV.replace(b",", b";"))),
    Reader("csv.gz", ".csv.gz", _cohort, (gzip.compress(_CSV, mtime=0),), share=80),
    Reader("jsonl", ".jsonl", _cohort, (_JSONL,)),
    Reader("parquet", ".parquet", _cohort, (_parquet(),)),
    Reader("guess", ".csv", guess_table, (_CSV,)),
    Reader("notes", ".csv", read_notes, (_CSV,)),
    Reader("suite", ".yaml", read_suite_file, (_SUITE,), share=80),
    Reader("suite.csv", ".csv", read_suite_file, (_SUITE_CSV,)),
    Reader("suite.jsonl", ".jsonl", read_suite_file, (_SUITE_JSONL,), share=80),
    Reader("mdace", ".json", mdace.read_chart, (_CHART,), share=80),
    Reader("webanno", ".tsv", webanno.read, (_WEBANNO,), share=80),
    Reader("cas", ".json", lambda path: uima_cas.read_json(path.read_bytes(), path), (_CAS,)),
    Reader("gem", ".txt", read_cms, (_GEM,), share=80),
    Reader("words", ".csv", read_words, (b"word\nfever\ncough\n",)),
    Reader("ratings", ".csv", read_ratings, (b"word,a,b\nfever,1,5\ncough,2,\n",)),
    Reader("replacements", ".csv", read_replacements, (b"word,replacement\nfever,chill\n",), share=80),
    Reader("phrases", ".yaml", read_phrases, (b"heart failure: [CHF, weak heart]\n",), share=80),
    Reader("evidence", ".csv", read_evidence, (b"case_id,label,start,end,score\n1,I10,0,4,0.5\n",)),
    Reader("note places", ".csv", read_note_places, (b"case_id,note_id,category,start,end\n1,n1,ECG,0,4\n",)),
    Reader("review", ".json", read_review, (_REVIEW,), share=80),
    Reader("definition", ".yaml", load_definition, (_DEFINITION,), share=80),
    Reader("perturbation", ".yaml", load_perturbation, (_PERTURBATION,), share=80),
    Reader("predictions", ".csv", _predictions, (b"case_id,sick\n1,0.5\n2,0.25\n",)),
    Reader("model answer", ".json", _answers, (b"[[0.1, 0.2], [0.3, 0.4]]", b"[[0, 1], [1e-300, 0.5]]"), share=80),
    Reader("run", ".json", _run, (_RUN,), share=80),
    Reader("meds tables", ".json", hospitals.meds_tables, hospitals.MEDS),
    Reader("meds shard", ".parquet", hospitals.meds_shard, hospitals.MEDS_SHARD),
    Reader("meds", ".json", hospitals.meds, hospitals.MEDS_EVENTS, share=1),
    Reader("omop", ".txt", hospitals.omop, hospitals.OMOP, share=1),
    Reader("fhir", ".ndjson", hospitals.fhir, hospitals.FHIR, share=1),
    Reader("dicom", ".dcm", hospitals.dicom, hospitals.DICOM),
    *sheets.READERS,
    *trained.READERS,
)
BY_NAME = {reader.name: reader for reader in READERS}
