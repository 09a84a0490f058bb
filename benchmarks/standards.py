"""Cohorts from OMOP, MEDS and FHIR: wall and processor time, peak memory of a fresh process, and whether it is linear.

python benchmarks/standards.py [omop meds fhir] [postgresql] [dicom] [--rows 200000]

By name only: `postgresql` reads the tables of `omop` from a server of its own, which it starts, and `dicom` scans a
folder of films, at most 20,000.

With --rows 2000000 (OMOP notes, MEDS events with text) and 100,000 DocumentReferences this is the claim of the docs: at
most two minutes and 4 GB each. Notes have 600 characters; OMOP has four a visit. Ends with 1 beyond that, or if a
quarter of the rows takes less than a sixth of the time.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

MOST_SECONDS, MOST_GB, STEEPEST = 120.0, 4.0, 6.0
NOTES_PER_VISIT, LENGTH = 4, 600
START = datetime(2020, 1, 1)
# VmHWM in a process of its own, because `ru_maxrss` of a child starts at what its parent held.
BUILD = """
import sys, time
begun = time.perf_counter()
from pathlib import Path
from palpate.data.cohorts import find_kind, write_built_cohort

source, kind, out = sys.argv[1:]
found = find_kind(kind)
built = found.build(source if "://" in source else Path(source), options=found.options(), name="c", progress=None)
write_built_cohort(built, Path(out))
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20
print(len(built.cohort), time.perf_counter() - begun, time.process_time(), peak)
"""


def texts(n: int) -> list[str]:
    """Notes of drawn words; each is another one."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, 5_000)]
    pool = [" ".join(words[k] for k in rng.integers(0, len(words), LENGTH // 7))[: LENGTH - 12] for _ in range(2_000)]
    return [f"{k:<12}{pool[k % len(pool)]}" for k in range(n)]


def write_omop(folder: Path, n: int) -> None:
    """Visits of three days, a month apart; ten visits a person."""
    visits = n // NOTES_PER_VISIT
    visit = np.arange(visits)
    person = visit // 10
    start = pl.Series([START + timedelta(days=int(40 * (k % 10)), minutes=int(k % 1000)) for k in range(visits)])
    end = start + timedelta(days=3)
    pl.DataFrame({"person_id": np.unique(person), "year_of_birth": 1960}).write_parquet(folder / "person.parquet")
    days = {"visit_start_date": start.dt.date(), "visit_end_date": end.dt.date()}
    times = {"visit_start_datetime": start, "visit_end_datetime": end, "visit_concept_id": 9201}
    table = pl.DataFrame({"visit_occurrence_id": visit, "person_id": person, **days, **times})
    table.write_parquet(folder / "visit_occurrence.parquet")
    of = np.repeat(visit, NOTES_PER_VISIT)
    at = (
        start.gather(of)
        + pl.Series(np.arange(len(of)) % NOTES_PER_VISIT * 12 + 1).cast(pl.Duration("us")) * 3_600_000_000
    )
    pl.DataFrame(
        {"note_id": np.arange(len(of)), "person_id": of // 10, "note_date": at.dt.date(), "note_datetime": at,
         "visit_occurrence_id": of, "note_text": texts(len(of))}
    ).write_parquet(folder / "note.parquet")  # fmt: skip


def write_meds(folder: Path, n: int) -> None:
    """Twenty notes a subject, and one label after the last."""
    for name in ("data", "task_labels/soon"):
        (folder / name).mkdir(parents=True)
    subject, hour = np.arange(n) // 20, np.arange(n) % 20
    time = pl.Series([START]).new_from_index(0, n) + pl.Series(hour).cast(pl.Duration("us")) * 3_600_000_000
    said = texts(n)
    for k, begin in enumerate(range(0, n, 200_000)):
        end = begin + 200_000
        rows = {"subject_id": subject[begin:end], "time": time[begin:end], "text_value": said[begin:end]}
        frame = pl.DataFrame({**rows, "code": "NOTE//ward"})
        frame.write_parquet(folder / "data" / f"{k}.parquet")
    who = np.unique(subject)
    labels = {"subject_id": who, "prediction_time": START + timedelta(days=1), "boolean_value": who % 3 == 0}
    pl.DataFrame(labels).write_parquet(folder / "task_labels" / "soon" / "0.parquet")


def write_fhir(folder: Path, n: int) -> None:
    """One document of 5,000 characters per encounter, ten encounters per patient."""
    said = ["\n".join(texts(8)) for _ in range(50)]
    with (folder / "a.ndjson").open("w") as file:
        for k in range(n):
            begin = START + timedelta(days=40 * (k % 10), minutes=k % 1000)
            period = {
                "start": f"{begin:%Y-%m-%dT%H:%M:%S}-05:00",
                "end": f"{begin + timedelta(days=3):%Y-%m-%dT%H:%M:%S}-05:00",
            }
            who = {"subject": {"reference": f"Patient/{k // 10}"}}
            if k % 10 == 0:
                file.write(
                    json.dumps({"resourceType": "Patient", "id": str(k // 10), "birthDate": "1960-01-01"}) + "\n"
                )
            visit = {"resourceType": "Encounter", "id": str(k), "status": "finished", "class": {"code": "IMP"}}
            file.write(json.dumps({**visit, **who, "period": period}) + "\n")
            data = base64.b64encode(f"{k} {said[k % 50]}".encode()).decode()
            note = {
                "resourceType": "DocumentReference",
                "id": f"d{k}",
                "status": "current",
                "date": period["end"],
                **who,
            }
            rest = {
                "context": {"encounter": [{"reference": f"Encounter/{k}"}]},
                "content": [{"attachment": {"contentType": "text/plain", "data": data}}],
            }
            file.write(json.dumps({**note, **rest}) + "\n")


def write_dicom(folder: Path, n: int) -> None:
    """Two films of 64 x 64 pixels a study, two studies a patient, a hundred films a folder."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    film = Dataset()
    film.file_meta = FileMetaDataset()
    film.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    film.SOPClassUID = film.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.1.1"
    film.StudyDate, film.PatientAge, film.PatientSex, film.Modality = "20240501", "061Y", "F", "DX"
    film.Manufacturer, film.StudyDescription, film.ViewPosition = "Acme", "CHEST PORTABLE", "AP"
    film.Rows, film.Columns, film.SamplesPerPixel, film.PhotometricInterpretation = 64, 64, 1, "MONOCHROME1"
    film.BitsAllocated, film.BitsStored, film.HighBit, film.PixelRepresentation = 16, 12, 11, 0
    film.PixelData = bytes(64 * 64 * 2)
    for k in range(n):
        film.SOPInstanceUID = film.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{k}"
        film.StudyInstanceUID, film.PatientID = f"1.2.4.{k // 2}", f"p{k // 4}"
        (folder / str(k // 100)).mkdir(exist_ok=True)
        film.save_as(folder / str(k // 100) / f"{k}.dcm", enforce_file_format=True)


WRITERS = {"omop": write_omop, "meds": write_meds, "fhir": write_fhir, "dicom": write_dicom, "postgresql": write_omop}
DEFAULT = ("omop", "meds", "fhir")
MOST = {"fhir": 100_000, "dicom": 20_000}


@contextmanager
def server(folder: Path, tables: Path) -> Iterator[str]:
    """The address of a PostgreSQL on this machine that holds the tables of a folder; it ends with the measurement."""
    place = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}  # it does not run as root
    data = folder / "data"
    data.mkdir()
    for path in (folder, data):
        path.chmod(0o700)
        if user:
            shutil.chown(path, **user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    setup = [place / "initdb", "-D", data, "-U", "reader", "--auth=trust", "--no-sync"]
    subprocess.run(setup, check=True, capture_output=True, cwd="/", **user)  # type: ignore[call-overload]
    run = [place / "postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", folder, "-F"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(run, cwd="/", **quiet, **user) as running:  # type: ignore[call-overload]
        try:
            ask: list[str | Path] = [
                place / "psql",
                "-h",
                "127.0.0.1",
                "-p",
                port,
                "-U",
                "reader",
                "-d",
                "postgres",
                "-q",
            ]
            fill(ask, tables)
            yield f"postgresql://reader@127.0.0.1:{port}/postgres"
        finally:
            running.terminate()


def fill(ask: list[str | Path], tables: Path) -> None:
    """Copy Parquet tables into a server, as soon as it answers."""
    for _ in range(300):
        if subprocess.run([*ask, "-c", "SELECT 1"], capture_output=True, check=False).returncode == 0:
            break
        time.sleep(0.1)
    kinds = {"Int64": "bigint", "Int32": "int", "Date": "date", "String": "text"}
    for file in tables.glob("*.parquet"):
        frame = pl.read_parquet(file)
        columns = ", ".join(f"{name} {kinds.get(str(kind), 'timestamp')}" for name, kind in frame.schema.items())
        copied = tables / f"{file.stem}.csv"
        frame.write_csv(copied)
        made = ["-c", f"CREATE TABLE {file.stem} ({columns})", "-c", f"\\copy {file.stem} FROM '{copied}' CSV HEADER"]
        subprocess.run([*ask, "-v", "ON_ERROR_STOP=1", *made], check=True, capture_output=True)
        copied.unlink()
        file.unlink()


def measure(kind: str, n: int) -> tuple[int, float, float, float]:
    """Cases, seconds by the clock and of processor time, and GiB of a build from `n` notes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "source"
        folder.mkdir()
        WRITERS[kind](folder, n)
        if kind != "postgresql":
            return built(str(folder), kind, Path(name) / "cohort.parquet")
        with tempfile.TemporaryDirectory() as place, server(Path(place), folder) as address:
            return built(address, "omop", Path(name) / "cohort.parquet")


def built(source: str, kind: str, out: Path) -> tuple[int, float, float, float]:
    """What a fresh process took for the cohort."""
    run = [sys.executable, "-c", BUILD, source, kind, str(out)]
    ran = subprocess.run(run, check=True, capture_output=True, text=True)
    cases, wall, seconds, peak = ran.stdout.split()
    return int(cases), float(wall), float(seconds), float(peak)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=list(DEFAULT))
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    unknown = set(given.kinds) - set(WRITERS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(WRITERS)}")
    bad = 0
    for kind in given.kinds:
        n = min(given.rows, MOST.get(kind, given.rows))
        _, _, quarter, _ = measure(kind, n // 4)
        cases, wall, seconds, peak = measure(kind, n)
        ratio = seconds / quarter
        took = f"{seconds:.1f} s of processor time ({wall:.1f} s by the clock), {peak:.2f} GiB"
        what = f"{n:,} {'films' if kind == 'dicom' else 'notes'}, {cases:,} cases"
        print(f"{kind}: {what}: {took}; {ratio:.1f} times a quarter of them", flush=True)
        bad += seconds > MOST_SECONDS or peak > MOST_GB or ratio > STEEPEST
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
