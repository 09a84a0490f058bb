"""The same synthetic hospital through MIMIC-IV, OMOP, FHIR and MEDS: the same cases, labels, notes and splits."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from palpate.commands.build import build_cohort
from palpate.errors import InputError
from palpate.synthetic import write_hospital
from palpate.testing.reader_contract import check_cohort
from tests.e2e.command_line import CommandLine

SOURCES = {
    "mimic": ("readmission", "mimic-iv", ()),
    "omop": ("omop", "omop", ()),
    "fhir": ("fhir", "fhir", ()),
    "meds": ("meds", "meds", ("last=1",)),
}
COLUMNS = ["patient_id", "time", "split", "text", "attribute:gender", "attribute:race", "label:readmission"]


@pytest.fixture(scope="module", params=[80, pytest.param(600, marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("hospital")
    write_hospital(out, n_patients=request.param, seed=3, images=False, also=("meds", "omop", "fhir"))
    for name, (kind, place, overrides) in SOURCES.items():
        check_cohort(build_cohort(kind, out / place, out / f"{name}.parquet", overrides=overrides).cohort)
    return out


def cohort(folder: Path, name: str) -> pl.DataFrame:
    """MIMIC calls the race ethnicity, as its third version did."""
    names = {"attribute:ethnicity": "attribute:race"} if name == "mimic" else {}
    return pl.read_parquet(folder / f"{name}.parquet").rename(names).sort("patient_id", "time")


@pytest.mark.parametrize("name", ["omop", "fhir", "meds"])
def test_the_same_cases_labels_and_notes_as_mimic(folder: Path, name: str) -> None:
    expected, found = cohort(folder, "mimic"), cohort(folder, name)
    assert expected.height > 80
    assert 0.02 < expected["label:readmission"].mean() < 0.5  # type: ignore[operator]
    assert expected["attribute:gender"].unique().sort().to_list() == ["F", "M"]
    assert "WHITE" in expected["attribute:race"]
    assert found.select(COLUMNS).equals(expected.select(COLUMNS))
    if name != "meds":
        assert found["case_id"].to_list() == expected["case_id"].to_list()
    years = found["attribute:age"].to_numpy() - expected["attribute:age"].to_numpy()
    assert abs(years[expected["attribute:age"].to_numpy() < 90]).max() <= 1  # MIMIC-IV knows the year of birth only


def test_the_same_deaths_in_omop_and_fhir(folder: Path, tmp_path: Path) -> None:
    ask = ["outcome=death", "index=start", "observation=ignore", "text=leave"]
    found = [
        build_cohort(kind, folder / kind, tmp_path / f"{kind}.parquet", overrides=ask).cohort
        for kind in ("omop", "fhir")
    ]
    assert found[0].cases["case_id"].to_list() == found[1].cases["case_id"].to_list()
    assert found[0].y.toarray().tolist() == found[1].y.toarray().tolist()
    latent = pl.read_csv(folder / "latent_iv.csv.gz")
    deaths = latent.filter(pl.col("died") == 1)["hadm_id"].cast(pl.String)
    positive = found[0].cases["case_id"].filter(pl.Series(found[0].y.toarray()[:, 0] == 1))
    assert len(deaths) > 2
    assert len(set(deaths) - set(positive)) <= len(deaths) * 0.2  # those who stay for longer than 30 days


@pytest.mark.slow
@pytest.mark.parametrize("name", ["omop", "fhir", "meds"])
def test_an_audit_from_end_to_end(
    folder: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(cohort(folder, name)) < 300:
        pytest.skip("the larger hospital is audited")
    palpate = CommandLine(capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    file = folder / f"{name}.parquet"
    trained = palpate("train", "tfidf-logistic", "--cohort", file, "--out", "words")
    assert trained.code == 0, trained.err
    cases = pl.read_parquet(file)
    scores = cases.select("case_id", readmission=pl.col("text").str.len_chars() / pl.col("text").str.len_chars().max())
    scores.write_parquet("p.parquet")
    Path("audit.yaml").write_text(
        f"cohort: {file}\nmodels:\n  words: palpate:words\n  length: predictions:p.parquet\naudits:\n"
        "  performance: {n_replicates: 100}\n  subgroups: {by: [gender], n_replicates: 100}\n"
    )
    ran = palpate("audit", "audit.yaml", "--out", "run")
    assert ran.code == 0, ran.err
    assert Path("run/report.html").is_file()


def test_a_standard_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'hl7' is not a standard; choose one of meds, omop, fhir"):
        write_hospital(tmp_path / "h", n_patients=1, also=("hl7",))
