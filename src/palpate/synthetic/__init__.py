"""The synthetic hospital: the file layouts of MIMIC-III, MIMIC-IV, MIMIC-CXR-JPG, MDACE and SMM4H, with known truth.

MEDS, OMOP, FHIR and DICOM are written by choice, from the patients of the MIMIC-IV side.

    truth = write_hospital(Path("hospital"), n_patients=5000, seed=0, site="a")

Every patient is drawn from its own stream of random numbers, so memory does not grow with the number of patients, the
first patients are the same whatever that number is, and the same seed gives the same bytes. `site="b"` is a second
hospital with other patients, another style, and a spurious word that means nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from palpate.errors import InputError
from palpate.files import write_atomically
from palpate.synthetic import truth
from palpate.synthetic.calibrate import calibrate
from palpate.synthetic.layouts import LatentTable, Tables, ade
from palpate.synthetic.layouts.dicom import require_pydicom
from palpate.synthetic.layouts.mdace import EvidenceWriter
from palpate.synthetic.layouts.mimic_cxr import MimicCXR
from palpate.synthetic.layouts.mimic_iii import MimicIII
from palpate.synthetic.layouts.mimic_iv import MimicIV
from palpate.synthetic.layouts.standards import STANDARDS, open_standard
from palpate.synthetic.patients import simulate
from palpate.synthetic.patients.findings import findings
from palpate.synthetic.patients.images import require_pillow
from palpate.synthetic.plants import SITES, Plants, Site, Truth

Progress = Callable[[int, int], None]
_PARALLEL_FROM = 400
_MARK = ".synthetic"
_FILES = ("latent_iii.csv.gz", "latent_iv.csv.gz", "latent_studies.csv.gz", "clinician_ratings.csv", "truth.json")
FILMS = "dicom"
"""The standard of the pictures; the others are of tables."""
_FOLDERS = ("mimic-iii", "mimic-iv", "mimic-cxr-jpg", "mdace", "ade", *STANDARDS, FILMS)

__all__ = ["Plants", "Truth", "write_hospital"]


def write_hospital(
    out: Path,
    *,
    n_patients: int = 5000,
    seed: int = 0,
    site: Site = "a",
    plants: Plants = Plants(),  # noqa: B008  (frozen)
    images: bool = True,
    progress: Progress | None = None,
    workers: int = 2,
    also: Sequence[str] = (),
) -> Truth:
    """Write all files of the hospital below `out`: a new or empty folder, or an earlier hospital, which is replaced.

    `also` names standards in whose layouts the MIMIC-IV side is written too, each in a folder of its name.
    `progress(done, total)` is called as patients are written. `workers` changes only the time: with two, the
    MIMIC-IV side is written by a second process.
    """
    if n_patients < 1 or seed < 0 or site not in SITES:
        raise InputError(
            f"a hospital can't have {n_patients} patients, seed {seed} and site '{site}'",
            hint="use at least one patient, a seed of 0 or more and site a or b",
        )
    unknown = next((name for name in also if name not in (*STANDARDS, FILMS)), None)
    if unknown is not None:
        raise InputError(f"'{unknown}' is not a standard", hint=f"choose one of {', '.join((*STANDARDS, FILMS))}")
    plants.check()
    if images:
        require_pillow()
    if FILMS in also:
        require_pydicom()
    _clear(out)
    count = _Count(progress, 2 * n_patients)
    if workers > 1 and n_patients >= _PARALLEL_FROM:
        with _start_worker(out, n_patients, seed, site, plants, images, also) as worker:
            write_iii(out, n_patients=n_patients, seed=seed, site=site, plants=plants, progress=count.add)
            _follow(worker, count, n_patients)
    else:
        write_iii(out, n_patients=n_patients, seed=seed, site=site, plants=plants, progress=count.add)
        write_iv(
            out,
            n_patients=n_patients,
            seed=seed,
            site=site,
            plants=plants,
            images=images,
            progress=count.add,
            also=also,
        )
    ade.write_posts(out / "ade", n_posts=n_patients, seed=seed, site=site)
    truth.write_ratings(out / "clinician_ratings.csv", seed=seed, site=site)
    values = truth.describe(plants, site=site, seed=seed, n_patients=n_patients)
    text = json.dumps(values, indent=1, sort_keys=True, allow_nan=False)
    write_atomically(out / "truth.json", text + "\n")
    return Truth(values)


def _clear(out: Path) -> None:
    """Make the folder and remove what an earlier hospital left in it; other files are never touched."""
    if out.exists() and not out.is_dir():
        raise InputError("this is not a folder", file=out, hint="choose another folder")
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        raise InputError("the folder is not empty", file=out, hint="choose another folder")
    for folder in _FOLDERS:
        shutil.rmtree(out / folder, ignore_errors=True)
    for file in _FILES:
        (out / file).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()


def write_iii(
    out: Path, *, n_patients: int, seed: int, site: Site, plants: Plants, progress: Callable[[], None]
) -> None:
    """The MIMIC-III side, with evidence."""
    intercepts = calibrate(plants, site).intercepts
    with Tables(out) as tables, closing(EvidenceWriter(out / "mdace", tables, seed=seed, site=site)) as evidence:
        hospital = MimicIII(tables, evidence, LatentTable(tables, "latent_iii"), seed=seed, site=site)
        for patient in simulate(n_patients, seed=seed, site=site, source="iii", plants=plants, intercepts=intercepts):
            hospital.add(patient)
            progress()


def write_iv(
    out: Path,
    *,
    n_patients: int,
    seed: int,
    site: Site,
    plants: Plants,
    images: bool,
    progress: Callable[[], None],
    also: Sequence[str] = (),
) -> None:
    """The MIMIC-IV side, with chest X-rays, and in the layouts of standards."""
    intercepts = calibrate(plants, site).intercepts
    with Tables(out) as tables, ExitStack() as stack:
        chosen = [name for name in dict.fromkeys(also) if name != FILMS]
        standards = [stack.enter_context(closing(open_standard(name, out / name))) for name in chosen]
        films = out / FILMS if FILMS in also else None
        made = findings(plants, site)
        folder = out / "mimic-cxr-jpg"
        cxr = MimicCXR(tables, folder, made, plants=plants, seed=seed, site=site, pictures=images, films=films)
        latent = LatentTable(tables, "latent_iv")
        hospital = MimicIV(tables, cxr, latent, seed=seed, site=site, standards=standards)
        for patient in simulate(n_patients, seed=seed, site=site, source="iv", plants=plants, intercepts=intercepts):
            hospital.add(patient)
            progress()


class _Count:
    def __init__(self, report: Progress | None, total: int) -> None:
        self._report, self._total, self._done = report, total, 0

    def add(self, n: int = 1) -> None:
        self._done += n
        if self._report is not None:
            self._report(self._done, self._total)


# --- the MIMIC-IV side in a process of its own ---------------------------------------------------------------------

_WORKER = "import sys; from palpate.synthetic import mimic_iv_worker; mimic_iv_worker(sys.argv[1])"


def mimic_iv_worker(job: str) -> None:
    """The second process: write the MIMIC-IV side with the options in the JSON, and dots to standard output."""
    options = json.loads(job)
    plants, out = Plants(**options.pop("plants")), Path(options.pop("out"))
    done, step = 0, _patients_per_dot(options["n_patients"])

    def count() -> None:
        nonlocal done
        done += 1
        if done % step == 0:
            sys.stdout.write(".")
            sys.stdout.flush()

    try:
        write_iv(out, plants=plants, progress=count, **options)
    except OSError as error:  # told by the first process
        sys.stdout.write(json.dumps([error.errno, error.filename or str(out)]))
        sys.exit(1)


@contextmanager
def _start_worker(
    out: Path, n_patients: int, seed: int, site: Site, plants: Plants, images: bool, also: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    # Not multiprocessing: a script that calls `write_hospital` then needs no `if __name__ == "__main__"`.
    job = {"out": str(out), "n_patients": n_patients, "seed": seed, "site": site, "images": images}
    job |= {"plants": asdict(plants), "also": list(also)}
    with subprocess.Popen([sys.executable, "-c", _WORKER, json.dumps(job)], stdout=subprocess.PIPE) as worker:
        try:
            yield worker
        except BaseException:
            worker.kill()
            raise


def _patients_per_dot(n_patients: int) -> int:
    """How many patients one dot of the worker stands for: enough that all dots fit into the pipe."""
    return 1 + n_patients // 4096


def _follow(worker: subprocess.Popen[bytes], count: _Count, n_patients: int) -> None:
    """Count the worker's dots until it ends."""
    done, step = 0, _patients_per_dot(n_patients)
    while worker.stdout is not None and (dots := worker.stdout.read(1)):
        if dots != b".":
            number, file = json.loads(dots + worker.stdout.read())
            raise OSError(number, os.strerror(number), file)
        done += len(dots) * step
        count.add(len(dots) * step)
    count.add(n_patients - done)
    if worker.wait() != 0:
        raise InputError(
            "the second process of the synthetic hospital failed",
            hint="its message is above; with `workers=1` there is no second process",
        )
