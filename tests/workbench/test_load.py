"""Fifty raters at once, and a kill in the middle: what was acknowledged is there, once."""

from __future__ import annotations

import csv
import io
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from .conftest import WORDS
from .server import Member
from .started import StartedBench

pytestmark = pytest.mark.slow


def new_sheet(boss: Member, words: tuple[str, ...]) -> int:
    sent = boss.send("/words", title="Load", source="list", words="\n".join(words))
    return int(sent.url.path.split("/")[2])


def test_fifty_raters_lose_and_double_nothing(project: Path, tmp_path: Path) -> None:
    people = {f"r{k:02d}": "rater" for k in range(50)}
    with StartedBench(project / "run", folder=tmp_path / "bench", people=people) as bench:
        boss = bench.member("coordinator")
        sheet = new_sheet(boss, WORDS)
        members = {name: bench.member(name) for name in people}
        times: list[float] = []

        def rate_all(name: str) -> None:
            member = members[name]
            for at in range(len(WORDS)):
                form = {"at": at, "score": 1 + (at + int(name[1:])) % 5, "entry": f"{name}-{at}", "csrf": member.csrf}
                begun = time.perf_counter()
                for _ in range(2 if at % 3 == 0 else 1):  # some forms are sent twice
                    answer = member.post(f"/words/{sheet}/rate", data=form, follow_redirects=False)
                    assert answer.status_code == 303, answer.text
                times.append(time.perf_counter() - begun)

        with ThreadPoolExecutor(50) as pool:
            list(pool.map(rate_all, people))
        table = list(csv.DictReader(io.StringIO(boss.get(f"/words/{sheet}/ratings.csv").text.removeprefix("\ufeff"))))
        given = [float(row[name]) for row in table for name in people]
        assert len(given) == 50 * len(WORDS)
        for name in people:  # in the rater's own order, so the multiset of scores is what was sent
            assert sorted(float(row[name]) for row in table) == sorted(
                float(1 + (at + int(name[1:])) % 5) for at in range(len(WORDS))
            )
        kept = sqlite3.connect(tmp_path / "bench" / "entries.sqlite")
        assert kept.execute("SELECT count(*) FROM words_entries").fetchone()[0] == 50 * len(WORDS)
        kept.close()
    print(f"p95 {1000 * np.quantile(times, 0.95):.0f} ms")  # noqa: T201


def test_every_acknowledged_rating_survives_a_kill(project: Path, tmp_path: Path) -> None:
    words = tuple(f"word{k}" for k in range(400))
    people = {f"r{k}": "rater" for k in range(6)}
    acknowledged: dict[str, dict[int, int]] = {name: {} for name in people}
    with StartedBench(project / "run", folder=tmp_path / "bench", people=people) as bench:
        sheet = new_sheet(bench.member("coordinator"), words)
        members = {name: bench.member(name) for name in people}

        def rate(name: str) -> None:
            member = members[name]
            for at in range(len(words)):
                score = 1 + (at * 7 + int(name[1:])) % 5
                form = {"at": at, "score": score, "entry": f"e{at}", "csrf": member.csrf}
                try:
                    answer = member.post(f"/words/{sheet}/rate", data=form, follow_redirects=False)
                except httpx.HTTPError:
                    return
                if answer.status_code == 303:
                    acknowledged[name][at] = score

        threads = [threading.Thread(target=rate, args=(name,)) for name in people]
        for thread in threads:
            thread.start()
        while sum(map(len, acknowledged.values())) < 150:
            time.sleep(0.01)
        bench.kill()
        for thread in threads:
            thread.join()
        cookies = {name: member.cookies["palpate"] for name, member in members.items()}
    n = sum(map(len, acknowledged.values()))
    assert 150 <= n < 6 * len(words)
    with StartedBench(project / "run", folder=tmp_path / "bench", people={}) as again:
        boss = again.member("coordinator")
        table = list(csv.DictReader(io.StringIO(boss.get(f"/words/{sheet}/ratings.csv").text.removeprefix("\ufeff"))))
        kept = sqlite3.connect(tmp_path / "bench" / "entries.sqlite")
        assert kept.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        rows = kept.execute("SELECT name, entry, score FROM words_entries JOIN people ON person = people.id").fetchall()
        kept.close()
        found = {(name, int(entry[1:])): score for name, entry, score in rows}
        for name, scores in acknowledged.items():
            for at, score in scores.items():
                assert found[name, at] == score
        assert len(found) == len(rows)
        assert n <= len(rows) <= n + len(people)  # what was under way may be there, too
        assert sum(cell != "" for row in table for name, cell in row.items() if name in people) == len(rows)
        returning = Member(base_url=again.url, headers={"origin": again.url}, follow_redirects=True, trust_env=False)
        returning.cookies.set("palpate", cookies["r0"])
        assert returning.get(f"/words/{sheet}").url.path == f"/words/{sheet}"  # the session goes on
