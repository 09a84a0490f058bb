"""What goes wrong while people run palpate: bad values, damaged files, two runs at once, being stopped."""

from __future__ import annotations

import gzip
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import deque
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from palpate.cli import _stopped
from palpate.config import Config
from palpate.data.tables import TableSpec, read_cohort
from palpate.delimited import LONGEST_CELL, csv_rows, open_bytes
from palpate.errors import CohortError, ConfigError, RunError
from palpate.files import MOST_LEVELS, parse_yaml
from palpate.run.directory import RunDirectory
from tests.e2e.command_line import CommandLine

COHORT = "cohort: {file: cohort.csv, case: case_id, text: text, labels: [sick]}\n"
MODELS = "models: {m: {source: 'python:scores:f', isolate: false}}\ncache: cache.sqlite\n"
AUDITS = "audits: {performance: {n_replicates: 100}, data: false}\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    rows = "".join(f"c{k},patient {k} is {'ill' if k % 2 else 'well'},{k % 2}\n" for k in range(40))
    (tmp_path / "cohort.csv").write_text(f"case_id,text,sick\n{rows}")
    (tmp_path / "notext.csv").write_text("case_id,sick\n" + "".join(f"d{k},{k % 2}\n" for k in range(40)))
    (tmp_path / "scores.py").write_text("def f(texts):\n    return [0.9 if 'ill' in t else 0.1 for t in texts]\n")
    (tmp_path / "audit.yaml").write_text(COHORT + MODELS + AUDITS)
    return tmp_path


TWO = "cohorts: {a: {file: cohort.csv, case: case_id, labels: [sick]}, b: {file: notext.csv, labels: [sick]}}\n"


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        (TWO + MODELS + AUDITS, [], "model 'm' reads text, but cohort 'b' has none"),
        (COHORT + MODELS + AUDITS, ["--set", "performance.labels=["], "--set performance.labels=[: the value is not"),
        (COHORT + MODELS + AUDITS, ["--set", 'performance.split="\\uD800"'], "the value is not valid YAML"),
        (COHORT + MODELS + AUDITS, ["--set", f"performance.labels={'[' * 5000}"], "the value is not valid YAML"),
        (COHORT + MODELS + "audits: 5\n", ["--set", "performance.split=x"], "`audits:` of the configuration must be"),
        (COHORT + MODELS + "audits:\n", ["--set", "performance.split=x"], "does not have audit 'performance'"),
        (COHORT + MODELS + "audits: {performance: 5}\n", ["--set", "performance.split=x"], "has no options, but a"),
        (COHORT + MODELS + AUDITS.replace("100", "9223372036854775808"), [], "must be at most 1000000"),
        ('title: "\\uD800"\n' + COHORT + MODELS + AUDITS, [], "line 1: not valid YAML"),
        (f"a: {'[' * 5000}{']' * 5000}\n", [], "nested more than 100 levels deep"),
        (f"a: {'{b: ' * 5000}1{'}' * 5000}\n", [], "nested more than 100 levels deep"),
        (COHORT + MODELS.replace("cache.sqlite", '"a\\0b"') + AUDITS, [], "line 3: a text has a null character"),
        (COHORT + MODELS + AUDITS, ["--set", 'performance.split="a\\0"'], "the value is not valid YAML"),
        (COHORT + MODELS + AUDITS + "workers: 99999999999999999999999\n", [], "`workers`: must be at most 10000"),
        (COHORT + MODELS + AUDITS, ["--workers", "9999999999"], "9,999,999,999 workers are more than 10,000"),
        (COHORT + MODELS + AUDITS + "ray: {num_cpus: .inf}\n", [], "`ray.num_cpus`: must be at most 10000"),
        (COHORT + MODELS + AUDITS.replace("100", "100, level: 0.9999999999999999"), [], "must be at most 0.9999"),
        (COHORT + MODELS + AUDITS.replace("100", "100, level: 1.0e-300"), [], "must be at least 0.5"),
        (COHORT + MODELS.replace("python:scores:f", "predictions:~no-such-user/p.csv") + AUDITS, [], "p.csv"),
        (COHORT + MODELS + AUDITS + "seed: !!bool x\n", [], "line 5: not valid YAML (not a value of the type bool)"),
        (COHORT + MODELS + AUDITS, ["--set", "performance.split=!!timestamp x"], "the value is not valid YAML"),
        (COHORT + MODELS.replace("scores:f", "builtins:eval") + AUDITS, [], "model 'm', case 'c"),
    ],
)
def test_one_sentence_for_what_was_an_internal_error(
    config: str, options: list[str], said: str, small: Path, palpate: CommandLine
) -> None:
    (small / "audit.yaml").write_text(config)
    ran = palpate("audit", small / "audit.yaml", *options)
    assert ran.code == (3 if "eval" in config else 2), ran.err
    assert said in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "model",
    [
        "{source: 'https://h.example/x?key=SEKRET', api: foo}",
        "{source: 'https://h.example/x?key=SEKRET', timeout: -1}",
        "{source: 'http://127.0.0.1:9/x?key=SEKRET', api: chat, model: m, prompt: no text}",
        "{source: 'https://u:SEKRET@/x', allow_remote: true}",
        "'htp://u:SEKRET@h/x'",
        "'predictions:https://u:SEKRET@h/x.csv'",
        "{source: 'http://127.0.0.1:99999/x?key=SEKRET', labels: [sick]}",
    ],
)
def test_what_is_wrong_with_a_model_is_said_without_its_key(model: str, small: Path, palpate: CommandLine) -> None:
    (small / "audit.yaml").write_text(f"{COHORT}models: {{m: {model}}}\ncache: cache.sqlite\n{AUDITS}")
    ran = palpate("audit", small / "audit.yaml", "--log", small / "log.jsonl")
    assert ran.code == 2, ran.err
    assert "SEKRET" not in ran.err + (small / "log.jsonl").read_text()


def test_a_word_of_the_command_line_that_is_no_text(palpate: CommandLine) -> None:
    ran = palpate("codes", "map", "\udc83")
    assert ran.code == 2
    assert "a word of the command line is not valid text" in ran.err


def test_a_title_that_no_file_can_hold() -> None:
    with pytest.raises(ValueError, match="half of a character"):
        Config.model_validate({"title": "\ud800", "cohort": "a.csv", "models": {"m": "x:y"}, "audits": {"data": {}}})


def test_anchors_that_multiply() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 12)]
    with pytest.raises(ConfigError, match="values when its anchors are written out"):
        parse_yaml("\n".join(lines), Path("bomb.yaml"), needs="`a:`")
    deep = "[" * MOST_LEVELS + "]" * MOST_LEVELS
    with pytest.raises(ConfigError, match="nested more than"):
        parse_yaml(f"a: {deep}", Path("deep.yaml"), needs="`a:`")


def test_a_gzip_bomb_is_refused_at_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "bomb.csv.gz"
    with gzip.open(file, "wb") as out:
        out.write(b"case_id,text,sick\n1,")
        for _ in range(300):
            out.write(b"a" * 2**20)
    assert file.stat().st_size < 2**20
    with pytest.raises(CohortError, match=r"times as large|more than 67,108,864 characters"):
        list(csv_rows(file))
    with gzip.open(file, "wb") as out:
        out.write(b"case_id,text,sick\n" + b"1,a,0\n" * 12_000_000)
    with pytest.raises(CohortError, match=r"decompressed, the file is more than 200 times as large"):
        for _ in csv_rows(file):
            pass


@pytest.mark.parametrize(("filling", "head"), [(b"\n", 0), (b"1,a,0\n", 2_000_000)], ids=["blank", "after honest rows"])
def test_a_gzip_bomb_is_refused_before_its_lines_are_read(tmp_path: Path, filling: bytes, head: int) -> None:
    file = tmp_path / "bomb.csv.gz"
    noise = random.Random(0).randbytes(head).hex().encode()
    with gzip.open(file, "wb") as out:
        out.write(b"case_id,text,sick\n" + b"".join(b"1,%b,0\n" % noise[k : k + 999] for k in range(0, 2 * head, 999)))
        for _ in range(70):
            out.write(filling * (2**20 // len(filling)))
        out.write(noise)  # so that the whole does not grow too much
    began, read = time.process_time(), count()
    with pytest.raises(CohortError, match=r"decompressed, the file is more than 200 times as large"):
        deque(zip(csv_rows(file), read, strict=False), maxlen=0)
    assert next(read) <= 2 * head // 999 + 2**23 // len(filling)  # a block or two of it, not all
    assert time.process_time() - began < 10


def test_a_gzip_file_that_grows_much_for_a_while_is_read(tmp_path: Path) -> None:
    file = tmp_path / "zeros.csv.gz"
    content = b"case_id,text,sick\n" + b"1,a,0\n" * 3_000_000 + random.Random(0).randbytes(2_000_000).hex().encode()
    file.write_bytes(gzip.compress(content))
    with open_bytes(file) as stream:
        assert stream.read() == content


def test_a_cell_longer_than_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text(f"case_id,text,sick\n1,{'a' * (LONGEST_CELL + 1)},0\n2,b,1\n")
    with pytest.raises(CohortError, match="the cell has more than 16,777,216 characters"):
        read_cohort(TableSpec(file=file, text="text", labels=("sick",)), name="c", folder=tmp_path)


def test_a_second_run_in_the_directory_is_refused(small: Path, palpate: CommandLine) -> None:
    with RunDirectory(small / "audit-run").locked():
        ran = palpate("audit", small / "audit.yaml")
    assert ran.code == 2
    assert "another palpate is writing to this directory" in ran.err
    assert not (small / "audit-run").exists()
    assert palpate("audit", small / "audit.yaml").code == 0
    with (
        RunDirectory(small / "audit-run").locked(),
        pytest.raises(RunError),
        RunDirectory(small / "audit-run").locked(),
    ):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"a": ' + b"[" * 100_000])
def test_resume_repairs_a_damaged_manifest(content: bytes, small: Path, palpate: CommandLine) -> None:
    assert palpate("audit", small / "audit.yaml").code == 0
    before = (small / "audit-run" / "results" / "performance.parquet").read_bytes()
    (small / "audit-run" / "manifest.json").write_bytes(content)
    said = palpate("report", small / "audit-run")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert palpate("audit", small / "audit.yaml", "--resume").code == 0
    assert (small / "audit-run" / "results" / "performance.parquet").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01", b"no array"])
def test_resume_repairs_a_damaged_list_of_what_is_pending(content: bytes, small: Path, palpate: CommandLine) -> None:
    assert palpate("audit", small / "audit.yaml").code == 0
    (small / "cache.sqlite").unlink()
    (small / "audit-run" / "pending").mkdir()
    (small / "audit-run" / "pending" / "m.npy").write_bytes(content)
    ran = palpate("audit", small / "audit.yaml", "--resume")
    assert ran.code == 0, ran.err


def test_scores_that_are_no_probabilities_are_made_again(small: Path, palpate: CommandLine) -> None:
    assert palpate("audit", small / "audit.yaml").code == 0
    before = (small / "audit-run" / "predictions" / "m.parquet").read_bytes()
    with sqlite3.connect(small / "cache.sqlite") as db:
        (number, blob) = db.execute("SELECT id, p FROM blocks").fetchone()
        wrong = np.frombuffer(blob, dtype="<f8").copy()
        wrong[0] = 7.0
        db.execute("UPDATE blocks SET p = ? WHERE id = ?", (wrong.tobytes(), number))
    assert palpate("audit", small / "audit.yaml", "--resume").code == 0
    assert (small / "audit-run" / "predictions" / "m.parquet").read_bytes() == before


def test_a_cut_off_cache_is_to_be_moved_away(small: Path, palpate: CommandLine) -> None:
    assert palpate("audit", small / "audit.yaml").code == 0
    whole = (small / "cache.sqlite").read_bytes()
    (small / "cache.sqlite").write_bytes(whole[: len(whole) // 2])
    ran = palpate("audit", small / "audit.yaml", "--resume")
    assert ran.code == 2
    assert "move it away" in ran.err


def test_what_a_killed_run_left_half_written_is_removed(small: Path, palpate: CommandLine) -> None:
    assert palpate("audit", small / "audit.yaml").code == 0
    left = [small / "audit-run" / "results" / ".99999999.performance.parquet", small / "audit-run" / ".99999999.x.json"]
    for file in left:
        file.write_text("half")
    assert palpate("audit", small / "audit.yaml", "--resume").code == 0
    assert not any(file.exists() for file in left)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on(number: int, small: Path) -> None:
    slow = (
        "import time, pathlib\ndef f(texts):\n    pathlib.Path(__file__).with_name('on').touch()\n    time.sleep(60)\n"
    )
    (small / "scores.py").write_text(f"{slow}    return [0.5] * len(texts)\n")
    (small / "audit.yaml").write_text((COHORT + MODELS + AUDITS).replace("isolate: false", "isolate: true"))
    command = [sys.executable, "-m", "palpate", "audit", str(small / "audit.yaml")]
    heeding = lambda: signal.signal(number, signal.SIG_DFL)  # noqa: E731  (a background job may ignore it)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heeding) as running:
        for _ in range(600):
            if (small / "audit-run" / "pending").exists() or (small / "on").exists():
                break
            time.sleep(0.1)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"To go on: palpate audit {small / 'audit.yaml'} --resume" in said.replace("\n", "")


IMPORTS = """
import os, signal, sys
class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == "palpate.cli.app":
            os.kill(os.getpid(), int(sys.argv[1]))
sys.meta_path.insert(0, Stopping())
signal.signal(signal.SIGINT, signal.default_int_handler)
from palpate.__main__ import start
start()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_while_it_imports_reads_one_line(number: int) -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTS, str(int(number))], capture_output=True, text=True)
    assert ran.returncode == 130
    assert ran.stderr == "palpate: stopped; nothing was begun.\n"


def test_a_stopped_training_says_how_to_go_on() -> None:
    said = _stopped(["palpate", "train", "caml", "--cohort", "my notes.csv", "--out", "m"])
    assert said.endswith("To go on: palpate train caml --cohort 'my notes.csv' --out m --resume")
    assert _stopped(["palpate", "cohort", "omop"]) == "stopped."


WAITS = """
import os, polars
from palpate.cli import _heed_signals
_heed_signals()
polars.DataFrame({"a": [1]}).lazy().collect()
never, _ = os.pipe()
for _ in range(100):
    try:
        print("waits", flush=True)
        os.read(never, 1)
    except KeyboardInterrupt:
        pass
"""


def test_a_stop_is_heard_while_the_run_waits() -> None:
    heeding = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, preexec_fn=heeding) as running:
        (limit := threading.Timer(60, running.kill)).start()
        assert running.stdout is not None
        for _ in running.stdout:
            time.sleep(0.002)
            running.send_signal(signal.SIGINT)
        limit.cancel()
    assert running.returncode == 0, "a signal went unheard"


@pytest.mark.slow
def test_no_worker_stays_when_the_run_is_killed_while_they_boot(small: Path) -> None:
    mark = f"PALPATE_BOOT_{os.getpid()}"
    command = [sys.executable, "-m", "palpate", "audit", str(small / "audit.yaml"), "--workers", "2"]
    for wait in (1.0, 2.0, 3.0, 4.0, 5.0):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, mark: "1"}) as running:
            time.sleep(wait)
            running.kill()
    for _ in range(300):
        left = [each.name for each in Path("/proc").iterdir() if each.name.isdigit() and _has(each, mark)]
        if not left:
            break
        time.sleep(0.1)
    assert not left


def _has(process: Path, mark: str) -> bool:
    try:
        return mark.encode() in (process / "environ").read_bytes()
    except OSError:
        return False
