"""The MIMIC-CXR-JPG layout: studies, CheXpert labels, pictures, and the predictions of two models for them."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palpate.synthetic.calibrate import probability
from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.layouts import Tables, schemas
from palpate.synthetic.layouts.dicom import Shot, write_film
from palpate.synthetic.notes import grammar
from palpate.synthetic.notes.voice import BLANK
from palpate.synthetic.patients import Stay, SyntheticPatient, images
from palpate.synthetic.patients.findings import Findings, Floats, cxr_table, labels
from palpate.synthetic.plants import SITES, Plants, Site

Booleans = NDArray[np.bool_]
_FOLDER = "mimic-cxr-jpg/"
_STEM = _FOLDER + "mimic-cxr-2.0.0-"
_RADIOLOGY = "mimic-iv/note/radiology"
MODELS = ("honest", "shortcut", "pretest")
LATENT = "latent_studies"
_FIRST_STUDY = 50_000_001
_VIEWS = {"AP": "antero-posterior", "PA": "postero-anterior", "LATERAL": "lateral"}
_PROCEDURES = {"AP": "CHEST (PORTABLE AP)", "PA": "CHEST (PA AND LAT)"}


class MimicCXR:
    """Writes the studies, patient by patient."""

    def __init__(
        self, tables: Tables, folder: Path, findings: Findings, *, plants: Plants, seed: int, site: Site,
        pictures: bool, films: Path | None = None,
    ) -> None:  # fmt: skip
        self._tables, self._folder, self._findings, self._plants = tables, folder, findings, plants
        self._seed, self._site, self._pictures, self._films = seed, site, pictures, films
        self._patient: SyntheticPatient | None = None
        self._next_study = _FIRST_STUDY
        for name in ("metadata", "chexpert", "split"):
            tables.open(_STEM + name)
        tables.open(_RADIOLOGY)
        for model in MODELS:
            tables.open(f"{_FOLDER}predictions/{model}", ["case_id", *labels()])
        columns = ["dicom_id", "study_id", "subject_id", "hadm_id", "time", "has_prior", "history"]
        tables.open(
            LATENT, [*columns, *(f"pretest:{name}" for name in labels()), *(f"signal:{name}" for name in labels())]
        )

    def add(self, patient: SyntheticPatient, subject: int, hadms: list[int]) -> None:
        """Write all studies of a patient, in order of time."""
        self._patient = patient
        rng = stream(self._seed, SITES[self._site], 1, patient.number, 4)
        dice = Dice(rng)
        split = dice.weighted({"train": 0.8, "validate": 0.1, "test": 0.1})
        times = [(time, hadms[k]) for k, stay in enumerate(patient.stays) for time in _times(stay, dice)]
        if not patient.stays[-1].died and dice.chance(0.25):
            times.append((patient.stays[-1].discharge + timedelta(days=dice.integer(20, 700)), 0))
        for number, (time, hadm) in enumerate(sorted(times), start=1):
            over = [stay for stay in patient.stays if stay.discharge < time]
            history = {condition.name for stay in over for condition in stay.conditions}
            self._study(subject, hadm, time, history, prior=bool(over), split=split, number=number, rng=rng, dice=dice)

    def _study(
        self, subject: int, hadm: int, time: datetime, history: Set[str], *, prior: bool, split: str, number: int,
        rng: np.random.Generator, dice: Dice,
    ) -> None:  # fmt: skip
        study = self._next_study
        self._next_study += 1
        pretest = self._findings.pretest(history)
        positive = rng.random(len(pretest)) < probability(pretest)
        self._tables.add(_STEM + "chexpert", [subject, study, *_recorded(positive, dice)])
        self._report(subject, hadm, time, positive, number, dice)
        view = "AP" if dice.chance(0.6) else "PA"
        views = [view, "LATERAL"] if view == "PA" and dice.chance(0.5) else [view]
        for shown in views:
            dicom = "-".join(f"{part:08x}" for part in rng.integers(0, 2**32, 5).tolist())
            signal = self._findings.signal * positive + rng.standard_normal(len(pretest))
            self._image(dicom, subject, study, time, view=shown, procedure=_PROCEDURES[view])
            self._tables.add(_STEM + "split", [dicom, study, subject, split])
            self._predictions(dicom, positive, signal, pretest, rng)
            state = [dicom, study, subject, hadm or "", time, int(prior), ";".join(sorted(history))]
            self._tables.add(LATENT, [*state, *_rounded(probability(pretest)), *_rounded(signal)])
            if self._pictures or self._films is not None:
                drawn = self._drawn(study, signal, pretest, lateral=shown == "LATERAL", number=number)
                self._save(drawn, dicom, subject, study, time, view=shown, procedure=_PROCEDURES[view])

    def _image(self, dicom: str, subject: int, study: int, time: datetime, *, view: str, procedure: str) -> None:
        clock = f"{time:%H%M%S}.{study % 1000:03d}"
        row = [
            dicom,
            subject,
            study,
            procedure,
            view,
            images.SIZE,
            images.SIZE,
            f"{time:%Y%m%d}",
            clock,
            procedure,
            _VIEWS[view],
            "Erect",
        ]
        self._tables.add(_STEM + "metadata", row)

    def _predictions(
        self, dicom: str, positive: Booleans, signal: Floats, pretest: Floats, rng: np.random.Generator
    ) -> None:
        made = self._findings
        seen = made.shortcut_signal * positive + rng.standard_normal(len(pretest))
        answers = (made.honest(signal), made.leaning(seen, made.standard(pretest)), probability(pretest))
        for model, answer in zip(MODELS, answers, strict=True):
            self._tables.add(f"{_FOLDER}predictions/{model}", [dicom, *_rounded(answer)])

    def _drawn(self, study: int, signal: Floats, pretest: Floats, *, lateral: bool, number: int) -> NDArray[np.uint8]:
        # A stream of its own: hospitals with and without pictures have the same tables.
        rng = stream(self._seed, SITES[self._site], 1, study, 5 + number)
        standard = self._findings.standard(pretest)
        return images.draw(
            rng, signal=signal, standard=standard, strength=self._plants.visual_shortcut, lateral=lateral
        )

    def _save(
        self,
        drawn: NDArray[np.uint8],
        dicom: str,
        subject: int,
        study: int,
        time: datetime,
        *,
        view: str,
        procedure: str,
    ) -> None:
        """As a JPG in the layout of MIMIC-CXR-JPG, and as a film, each by choice."""
        name = f"p{subject}"
        if self._pictures:
            images.save(drawn, self._folder / "files" / name[:3] / name / f"s{study}" / f"{dicom}.jpg")
        if self._films is not None and self._patient is not None:
            gender, years = self._patient.gender, min(89, max(0, time.year - self._patient.birth.year))
            write_film(self._films / name, Shot(dicom, subject, study, time, view, procedure, gender, years), drawn)

    def _report(self, subject: int, hadm: int, time: datetime, positive: Booleans, number: int, dice: Dice) -> None:
        said = [cxr_table()["reports"][label] for label, here in zip(labels(), positive, strict=True) if here]
        opened = dice.pick(("EXAMINATION: CHEST RADIOGRAPH", "CHEST RADIOGRAPH", "EXAMINATION: CHEST (PORTABLE AP)"))
        body = ". ".join(text[:1].upper() + text[1:] for text in said) or dice.pick(
            ("The lungs are clear", "No acute findings")
        )
        more = grammar().one("radiology", dice, {"date": BLANK})
        compared = dice.pick(("___", "none", "chest radiograph of ___"))
        clock = f"{dice.integer(1, 12)}:{dice.integer(0, 59):02d}"
        text = (
            f"{opened}\n\nINDICATION: {BLANK} with symptoms.\n\nCOMPARISON: {compared}\n\n"
            f"FINDINGS: {body}. {more}\n\nIMPRESSION: {body}. Read at {clock}.\n"
        )
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._tables.add(_RADIOLOGY, [f"{subject}-RR-{number}", subject, hadm or "", "RR", number, stamp, stamp, text])


def _times(stay: Stay, dice: Dice) -> list[datetime]:
    n = dice.weighted({0: 0.3, 1: 0.32, 2: 0.2, 3: 0.12, 4: 0.06})
    length = stay.discharge - stay.admit
    return [(stay.admit + length * dice.uniform()).replace(microsecond=0) for _ in range(n)]


def _recorded(positive: Booleans, dice: Dice) -> list[object]:
    """1.0 for positives; most negatives are not mentioned, a few are reported as absent or uncertain."""
    values: dict[str, object] = {}
    for label, here in zip(labels(), positive, strict=True):
        u = dice.uniform()
        values[label] = "1.0" if here else "0.0" if u < 0.12 else "-1.0" if u < 0.15 else ""
    found = any(here for label, here in zip(labels(), positive, strict=True) if label != "Support Devices")
    values["No Finding"] = "" if found else "1.0"
    return [values[name] for name in list(schemas()[_STEM + "chexpert"])[2:]]


def _rounded(values: Floats) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
