"""The pages of runs: what they show is what the run has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palpate.commands.audit import audit
from palpate.commands.history import as_csv, history
from palpate.workbench.options import BenchOptions
from palpate.workbench.shelf import RunShelf, find_config

from .server import Served


def test_the_list_the_scorecard_and_the_report(served: Served, project: Path) -> None:
    member = served.member("Ann", "viewer")
    name = f"{project.name}-run"
    assert f"/runs/of/{name}" in member.get("/runs").text
    page = member.get(f"/runs/of/{name}").text
    assert "Does it separate patients better than chance?" in page
    report = member.get(f"/runs/of/{name}/report")
    assert report.text == (project / "run" / "report.html").read_text(encoding="utf-8")
    assert "sandbox allow-scripts" in report.headers["content-security-policy"]
    assert report.headers["cache-control"] == "no-store"


def test_runs_side_by_side_and_over_time(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "run", tmp_path / "later")
    with Served(project / "run", tmp_path / "later", folder=tmp_path / "bench") as served:
        member = served.member("Ann", "viewer")
        page = member.get("/runs/compare", params={"run": [f"{project.name}-run", "later"]}).text
        assert page.count('<th scope="col">') == 5  # the question, and two models of two runs
        assert member.get("/runs/compare").status_code == 400
        assert member.get("/runs/compare", params={"run": "nothing"}).status_code == 404
        table = member.get("/runs/history/table", params={"metric": "auroc", "model": "lr"}).text
        assert table.count("\n") == 3
        assert "History of AUROC" in member.get("/runs/history/page").text
        wrong = member.get("/runs/history", params={"metric": "auroK"}).text
        assert "no run has a metric" in wrong
    assert as_csv(history([project / "run"])).startswith("run,")


def test_notes_in_a_report_are_shown_only_if_asked(project: Path, tmp_path: Path) -> None:
    text = (project / "audit.yaml").read_text() + "include_text: true\n"
    (project / "text.yaml").write_text(text)
    run = audit(project / "text.yaml", out=tmp_path / "run").run.path
    secret = "secretnote"
    for show in (False, True):
        with Served(run, folder=tmp_path / f"bench{show}", show_notes=show) as served:
            member = served.member("Ann", "viewer")
            name = f"{tmp_path.name}-run"
            shown = [member.get(f"/runs/of/{name}").text, member.get(f"/runs/of/{name}/report").text]
            files = [member.get(f"/runs/of/{name}/files/{each}").content for each in served_files(served, name)]
            assert (secret in "".join(shown)) is False or show
            assert any(secret.encode() in each for each in files) is False or show
            results = [each for each in served_files(served, name) if each.startswith("results/")]
            assert bool(results) is show, "any table of an audit may quote notes"
            assert secret not in served.logged()


def served_files(served: Served, name: str) -> list[str]:
    shelf = RunShelf(served.options)
    run = shelf.get(name)
    assert run is not None
    return shelf.files(run)


def test_a_configuration_is_found_beside_the_run(tmp_path: Path, project: Path) -> None:
    assert find_config(BenchOptions(runs=(project / "run",))) == project / "audit.yaml"
    (tmp_path / "mine.yaml").write_text("")
    assert find_config(BenchOptions(runs=(tmp_path / "mine-run",))) == tmp_path / "mine.yaml"
    assert find_config(BenchOptions(runs=(tmp_path / "other",))) is None


@pytest.mark.parametrize("damage", ["", "{"])
def test_a_damaged_run_does_not_hide_the_others(project: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(project / "run", tmp_path / "broken")
    for file in (tmp_path / "broken" / "results").glob("*.json"):
        file.write_text(damage)
    with Served(project / "run", tmp_path / "broken", folder=tmp_path / "bench") as served:
        page = served.member("Ann", "viewer").get("/runs").text
        assert "broken is left out: The run can&#39;t be read: the file is damaged." in page
        assert str(tmp_path) not in page
        assert f"{project.name}-run" in page


def test_a_run_that_was_moved_away_is_a_sentence(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "run", tmp_path / "gone")
    with Served(project / "run", tmp_path / "gone", folder=tmp_path / "bench") as served:
        member = served.member("Ann", "viewer coordinator")
        assert member.get("/runs/of/gone").status_code == 200
        (tmp_path / "gone").rename(tmp_path / "elsewhere")
        for path in (
            "/runs/of/gone",
            "/runs/of/gone/report",
            "/runs/of/gone/files/manifest.json",
            "/runs/compare?run=gone",
        ):
            answer = member.get(path)
            assert answer.status_code == 400
            assert "no longer where it was" in answer.text
            assert str(tmp_path) not in answer.text
        for path in ("/runs", "/runs/history", "/words", "/evidence", "/alterations"):
            assert member.get(path).status_code < 500


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "manifest.json").write_bytes(b'{"schema": '),
        lambda run: (run / "manifest.json").write_bytes(b"\x00\xff\xfe"),
        lambda run: (run / "manifest.json").write_text("[" * 100_000),
        lambda run: (run / "manifest.json").write_text('{"schema": 999}'),
        lambda run: changed_manifest(run, created=5),
        lambda run: changed_manifest(run, models="x"),
        lambda run: changed_manifest(run, audits=3),
        lambda run: [file.write_bytes(b"PAR1") for file in (run / "results").glob("*.parquet")],
        lambda run: [file.write_text("{") for file in (run / "results").glob("*.json")],
    ],
)
def test_a_damaged_run_of_the_workbench_stops_nothing(
    project: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    made = tmp_path / "bench" / "runs" / "vocabulary-1"
    shutil.copytree(project / "run", made)
    damage(made)
    with Served(project / "run", folder=tmp_path / "bench") as served:
        boss = served.member("Ann", "coordinator")
        page = boss.get("/runs").text
        assert "vocabulary-1 is left out" in page
        assert f"/runs/of/{project.name}-run" in page
        assert boss.get("/runs/of/vocabulary-1").status_code == 400
        for path in ("/runs/history", "/runs/history/page", "/words", "/evidence", f"/runs/of/{project.name}-run"):
            answer = boss.get(path)
            assert answer.status_code == 200
            assert str(tmp_path) not in answer.text
        assert str(tmp_path) not in page + boss.get("/runs/of/vocabulary-1").text


def changed_manifest(run: Path, **values: object) -> None:
    file = run / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_runs_may_arrive_while_they_are_listed(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, later = RunShelf(served.options), iter(range(100))
    get = shelf.get

    def get_while_one_arrives(name: str) -> Any:
        shelf._keep(tmp_path / f"later{next(later)}")  # as the thread does that waits for an audit
        return get(name)

    monkeypatch.setattr(shelf, "get", get_while_one_arrives)
    assert len(shelf.all()[0]) == len(served.options.runs)
