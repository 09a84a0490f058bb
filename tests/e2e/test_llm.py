"""A language model behind a chat endpoint, audited through the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.run.directory import RunDirectory
from tests.e2e.command_line import CommandLine
from tests.models.adapters.chat.chat_server import ChatServer, Reply, error, serving

N = 60
NAMES = ("Quillfeather", "Zephyrine", "Oxbowitch")


def note(k: int) -> str:
    """Notes with names that are nowhere else; the end of each says how the tests' model answers."""
    who = "She is a 54-year-old woman" if k % 2 else "He is a 61-year-old man"
    return f"{who} called {NAMES[k % 3]}, number {k}, with {'fever' if k % 4 < 2 else 'a cough'} for {k} days."


def project(folder: Path, server: ChatServer, audits: str = "performance: {n_replicates: 100}", **options: Any) -> Path:
    rows = {"case_id": [f"c{k}" for k in range(N)], "patient_id": [f"p{k}" for k in range(N)]}
    rows["text"] = [note(k) for k in range(N)]
    frame = pl.DataFrame(rows).with_columns(pl.Series("ill", [int(k % 4 < 2) for k in range(N)]))
    frame.write_csv(folder / "notes.csv")
    settings = {"source": server.url, "api": "chat", "model": "m", "prompt": "{text} Ill?", "backoff": 0.01, **options}
    settings = {name: value for name, value in settings.items() if value is not None}
    config = folder / "audit.yaml"
    config.write_text(
        "cohort: {file: notes.csv, labels: [ill]}\n"
        f"models:\n  llm: {json.dumps(settings)}\naudits:\n  {audits}\ncache: cache.sqlite\n"
    )
    return config


def number_of(question: str) -> int:
    found = re.search(r"number (\d+)", question)
    assert found is not None
    return int(found[1])


def doctor(question: str, message: Mapping[str, Any]) -> Reply | str:
    """Refuses every tenth case, mumbles every fifteenth, and is right about the others."""
    k = number_of(question)
    if k % 10 == 0:
        return Reply(None, refusal="I can't help with that.")
    return "Hm" if k % 15 == 1 else Reply("Yes" if "fever" in question else "No", usage=(40, 2))


def shares(run: Path, audit: str, metric: str) -> dict[str, pl.DataFrame]:
    rows = RunDirectory(run).read_result(audit).estimates.filter(pl.col("metric") == metric)
    return {row["group"]: row for row in rows.filter(pl.col("reference").is_null()).iter_rows(named=True)}


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_refusals_and_unreadable_answers_equal_a_hand_count(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(doctor) as server:
        config = project(tmp_path, server, price={"input": 1, "output": 10})
        ran = palpate("audit", config, "--out", tmp_path / "run")
        assert ran.code == 0, ran.err
        assert len(server.messages) == N
    refused = [k for k in range(N) if k % 10 == 0]
    mumbled = [k for k in range(N) if k % 10 and k % 15 == 1]
    for metric, hits in (("refusal_share", refused), ("unreadable_share", mumbled)):
        (row,) = shares(tmp_path / "run", "performance", metric).values()
        assert row["value"] == pytest.approx(len(hits) / N)
        assert row["low"] < row["value"] < row["high"]
        assert row["n"] == N
    (missing,) = shares(tmp_path / "run", "performance", "missing_share").values()
    assert missing["value"] == pytest.approx((len(refused) + len(mumbled)) / N)
    assert "llm refused 10" in ran.out
    assert "gives only 2 different scores (0, 1)" in ran.out
    spent = RunDirectory(tmp_path / "run").read_manifest()["scoring"]["llm"]["spent"]
    answered = N - len(refused) - len(mumbled)
    assert (spent["requests"], spent["input_tokens"]) == (N, 40 * answered + 100 * (N - answered))


def test_nothing_of_a_note_is_written_anywhere(tmp_path: Path, palpate: CommandLine) -> None:
    def leaky(question: str, message: Mapping[str, Any]) -> Reply | str:
        return error(400, f"bad prompt: {question}") if number_of(question) == 59 else doctor(question, message)

    with serving(leaky) as server:
        config = project(tmp_path, server, headers={"Authorization": "Bearer sk-veryverysecret"})
        ran = palpate("audit", config, "--out", tmp_path / "run", "--log", tmp_path / "log.jsonl")
    assert ran.code == 3
    assert "case 'c59'" in ran.err
    assert "status 400" in ran.err
    (tmp_path / "notes.csv").unlink()
    config.unlink()
    written = everything(tmp_path) + ran.err.encode() + ran.out.encode()
    for word in (*NAMES, "sk-veryverysecret"):
        assert word.encode() not in written


def test_negative_refusals_have_scores_and_are_still_counted(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(doctor) as server:
        ran = palpate("audit", project(tmp_path, server, refusal="negative"), "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "they count as negative answers" in ran.out
    (row,) = shares(tmp_path / "run", "performance", "refusal_share").values()
    assert row["value"] == pytest.approx(0.1)
    assert not shares(tmp_path / "run", "performance", "missing_share")


@pytest.mark.parametrize("limit", [{"max_requests": 25}, {"price": {"input": 10, "output": 0}, "max_cost": 0.0101}])
def test_a_limit_stops_and_resume_pays_for_nothing_twice(
    tmp_path: Path, palpate: CommandLine, limit: dict[str, Any]
) -> None:
    def steady(question: str, message: Mapping[str, Any]) -> Reply:
        return Reply("Yes" if number_of(question) % 3 else "No", usage=(40, 2))

    with serving(steady) as server:
        config = project(tmp_path, server, **limit)
        first = palpate("audit", config, "--out", tmp_path / "run")
        assert first.code == 3
        assert re.search(r"model 'llm'.*limit max_\w+: \S+ is reached \(25 requests.*--resume", first.err), first.err
        assert first.err.count("palpate: ") == 1
        again = palpate("audit", config, "--out", tmp_path / "run", "--resume")
        assert again.code == 3
        assert len(server.messages) == 25
        more = {name: 1000 if name.startswith("max") else value for name, value in limit.items()}
        project(tmp_path, server, **more)
        done = palpate("audit", config, "--out", tmp_path / "run", "--resume")
        assert done.code == 0, done.err
        assert sorted(server.questions) == sorted(f"{note(k)} Ill?" for k in range(N))
        spent = RunDirectory(tmp_path / "run").read_manifest()["scoring"]["llm"]["spent"]
        assert (spent["requests"], spent["answers"], spent["input_tokens"]) == (N, N, 40 * N)
    whole = (tmp_path / "run" / "results" / "performance.parquet").read_bytes()
    with serving(steady) as other:
        (tmp_path / "other").mkdir()
        assert palpate("audit", project(tmp_path / "other", other), "--out", tmp_path / "other" / "run").code == 0
    assert (tmp_path / "other" / "run" / "results" / "performance.parquet").read_bytes() == whole


def test_an_altered_patient_who_is_refused_more_often_is_found(tmp_path: Path, palpate: CommandLine) -> None:
    def biased(question: str, message: Mapping[str, Any]) -> str:
        k = number_of(question)
        if "He is" in question and k % 3 == 0:
            return "I'm sorry, I can't help with that."
        return f"{(k % 17) / 20 + 0.05:.2f}"

    with serving(biased) as server:
        audits = "characteristics: {alter: [gender], n_replicates: 100}"
        config = project(tmp_path, server, audits, parser="number", concurrency=8, refusal="negative")
        ran = palpate("audit", config, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    rows = RunDirectory(tmp_path / "run").read_result("characteristics").estimates
    rows = rows.filter(pl.col("metric") == "refusal_share")
    level = {row["group"]: row["value"] for row in rows.filter(pl.col("reference").is_null()).iter_rows(named=True)}
    changes = {row["group"]: row for row in rows.filter(pl.col("reference").is_not_null()).iter_rows(named=True)}
    men, women = (
        next(name for name in level if name.rpartition("=")[2] == sex or name == sex) for sex in ("male", "female")
    )
    assert level[men] == pytest.approx(1 / 3)
    assert level[women] == 0
    assert changes[men]["low"] > 0
    assert re.search(rf"llm refuses more often in '{men}'", ran.out), ran.out


def test_the_check_says_what_a_run_would_cost(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(lambda question, message: Reply("Yes", usage=(30, 2))) as server:
        config = project(tmp_path, server, samples=3, price={"input": 1000, "output": 0}, max_cost=2.0)
        ran = palpate("check", config)
        assert ran.code == 0, ran.err
        assert re.search(
            r"llm is asked: about 180 requests, 5,\d\d\d tokens in and 360 out, 5\.\d+ at its price", ran.out
        )
        assert "would stop at max_cost: 2" in ran.out
        before = len(server.messages)
        ran = palpate("check", config, "--json")
        ahead = json.loads(ran.out)["models"][0]["forecast"]
        assert (ahead["requests"], ahead["stops"]) == (180, "max_cost: 2")
    assert before < 3 * 15


def test_equal_texts_of_two_patients_are_asked_apart_if_answers_vary(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(lambda question, message: Reply("Yes", tokens={"Yes": 0.7, "No": 0.3})) as server:
        for options, n in (({}, N), ({"temperature": 0}, 1), ({"parser": "logprobs"}, 1)):
            config = project(tmp_path, server, **options)
            frame = pl.read_csv(tmp_path / "notes.csv").with_columns(text=pl.lit("fever"))
            frame.write_csv(tmp_path / "notes.csv")
            before = len(server.messages)
            assert palpate("audit", config, "--out", tmp_path / f"run{len(options)}{n}{options}").code == 0
            assert len(server.messages) - before == n


def test_several_workers_ask_no_more(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(doctor) as server:
        config = project(tmp_path, server, max_requests=20)
        ran = palpate("audit", config, "--out", tmp_path / "run", "--workers", "2")
        assert ran.code == 3
        assert len(server.messages) == 20


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokenz": 3}, r"audit.yaml: line 3: .*max_tokenz.*did you mean `max_tokens`"),
        ({"samples": "three"}, r"line 3: .*'samples'.*whole number"),
        ({"examples": "shots.csv"}, r"line 3: `examples`: file not found: .*shots.csv"),
        ({"parser": "json", "answer_schema": {"properties": {"x": {}}}}, r"line 3: .*no property for label"),
        ({"refusal": "ignore"}, r"line 3: .*'refusal'.*'missing'"),
        ({"model": " "}, r"line 3: .*'model'"),
        ({"api": "chats"}, r"line 3: .*'api'.*'probabilities' or 'chat'"),
        ({"api": None}, r"line 3: .*'model'.*add `api: chat`"),
        ({"source": "127.0.0.1:8000/v1"}, r"line 3: .*did you mean `http://127.0.0.1:8000/v1`"),
        ({"headers": {"Authorization": "Bearer ${NO_SUCH_KEY}"}}, r"line 3: .*NO_SUCH_KEY, which is not set"),
    ],
)
def test_wrong_options_have_a_line(tmp_path: Path, palpate: CommandLine, options: dict[str, Any], problem: str) -> None:
    with serving() as server:
        ran = palpate("audit", project(tmp_path, server, **options), "--out", tmp_path / "run")
        assert ran.code == 2
        assert re.search(problem, " ".join(ran.err.split())), ran.err
        assert not server.messages


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"parser": "json"}, '{"ill": 0.25}'),
        ({"prompt": "{text} Does the patient have {label}?"}, "Yes"),
        ({"parser": "json", "answer_schema": {"properties": {"ill": {"type": "number"}}}}, '{"ill": 0.25}'),
    ],
)
def test_a_question_names_the_label_of_the_cohort(
    tmp_path: Path, palpate: CommandLine, options: dict[str, Any], answer: str
) -> None:
    with serving(lambda question, message: answer) as server:
        ran = palpate("audit", project(tmp_path, server, **options), "--out", tmp_path / "run")
        assert ran.code == 0, ran.err
        for message in server.messages:
            assert "positive" not in json.dumps(message)
            assert "ill" in json.dumps(message.get("response_format", message))
    scores = pl.read_parquet(tmp_path / "run" / "predictions" / "llm.parquet")["p"].explode()
    assert scores.to_list() == [0.25 if "{" in answer else 1.0] * N


def test_the_check_says_that_answers_cannot_be_read(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(lambda question, message: "Yes, he is.") as server:
        ran = palpate("check", project(tmp_path, server, parser="json"))
    assert ran.code == 0, ran.err
    assert re.search(
        r"llm refused 0 of (\d+) trial questions and gave no answer that can be read to \1 \(mostly because the answer "
        r"contains no JSON object\)",
        " ".join(ran.out.split()),
    ), ran.out


def test_refusals_are_counted_by_sex(tmp_path: Path, palpate: CommandLine) -> None:
    with serving(doctor) as server:
        config = project(tmp_path, server, "subgroups: {by: [sex], n_replicates: 100}", refusal="negative")
        sex = pl.Series("sex", ["f" if k % 2 else "m" for k in range(N)])
        pl.read_csv(tmp_path / "notes.csv").with_columns(sex).write_csv(tmp_path / "notes.csv")
        config.write_text(config.read_text().replace("labels: [ill]", "labels: [ill], attributes: [sex]"))
        ran = palpate("audit", config, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    men = [k for k in range(N) if k % 2 == 0]
    found = shares(tmp_path / "run", "subgroups", "refusal_share")
    assert found["sex=m"]["value"] == pytest.approx(sum(k % 10 == 0 for k in men) / len(men))
    assert found["sex=f"]["value"] == 0
    assert found["sex=f"]["high"] > 0
    unread = shares(tmp_path / "run", "subgroups", "unreadable_share")
    assert unread["sex=m"]["value"] == pytest.approx(sum(k % 10 != 0 and k % 15 == 1 for k in men) / len(men))
