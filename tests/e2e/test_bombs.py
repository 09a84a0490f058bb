"""Small files and answers that become huge when they are unpacked: refused at the limit, wherever they are read."""

from __future__ import annotations

import gzip
import json
import resource
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from palpate.cases.edits import Inputs
from palpate.data.hospitals.fhir import read_resources
from palpate.data.tables import TableSpec, read_cohort
from palpate.delimited import FileLayout
from palpate.errors import CohortError, ModelError
from palpate.models.adapters import http
from palpate.models.adapters.prediction_files import read_file
from palpate.train.coding.evidence import read_table
from palpate.train.coding.vectors import read_vectors

LARGE = 2**30
MOST = 400 * 2**20
TOO_LARGE = "more than 200 times as large"


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Whoever unpacks all of it is told by what the process has grown."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST


def pack(file: Path, head: bytes, filling: bytes) -> Path:
    part = filling * (2**20 // len(filling))
    with gzip.open(file, "wb", compresslevel=5) as packed:
        packed.write(head)
        for _ in range(LARGE // len(part)):
            packed.write(part)
    return file


@pytest.mark.parametrize("filling", [b" ", b'{"resourceType": "Patient", "id": "1"}\n'])
def test_an_export_of_fhir(filling: bytes, tmp_path: Path) -> None:
    file = pack(tmp_path / "Patient.ndjson.gz", b'{"resourceType": "Patient", "id": "', filling)
    with pytest.raises(CohortError, match=TOO_LARGE):
        list(read_resources([file], ["Patient"], lambda _: None))


def test_a_line_of_fhir_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palpate.data.hospitals.fhir._LONGEST_LINE", 1000)
    (tmp_path / "Patient.ndjson").write_text('{"resourceType": "Patient"}\n' + "x" * 2000)
    with pytest.raises(CohortError, match="a line has more than 1,000 bytes"):
        list(read_resources([tmp_path / "Patient.ndjson"], ["Patient"], lambda _: None))


def test_word_vectors(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match=TOO_LARGE):
        read_vectors(pack(tmp_path / "vectors.gz", b"fever 1 2\n", b"1 "), ["fever"])


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_parquet_files_of_predictions_and_evidence(compression: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.parquet"
    rows = pyarrow.table({"case_id": ["x" * 1000] * 40_000})
    with pyarrow.parquet.ParquetWriter(file, rows.schema, compression=compression, use_dictionary=False) as writer:
        for _ in range(10):
            writer.write_table(rows)
    assert file.stat().st_size < 1_500_000
    with pytest.raises(CohortError, match=TOO_LARGE):
        read_file(file, FileLayout(), ["case_id"])
    with pytest.raises(CohortError, match=TOO_LARGE):
        read_table(file)


@pytest.mark.parametrize("as_category", [True, False])
def test_a_dictionary_with_one_text_for_every_row(as_category: bool, tmp_path: Path) -> None:
    n, file = 5_000, tmp_path / "cohort.parquet"
    text = pyarrow.DictionaryArray.from_arrays(np.zeros(n, np.int32), pyarrow.array(["x " * 50_000]))
    rows = pyarrow.table({"case_id": list(map(str, range(n))), "text": text, "sick": [0, 1] * (n // 2)})
    pyarrow.parquet.write_table(rows, file, store_schema=as_category)
    for read in (read_table, lambda file: read_file(file, FileLayout(), ["case_id"])):
        with pytest.raises(CohortError, match=TOO_LARGE):
            read(file)
    with pytest.raises(CohortError, match=TOO_LARGE):
        read_cohort(TableSpec(file=file, case="case_id", text="text", labels=("sick",)))


@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_of_an_endpoint(whole: bool) -> None:
    class Bomb(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            packing = zlib.compressobj(9, wbits=31)
            body = packing.compress(b'{"probabilities": [[0.5]]')
            body += b"".join(packing.compress(bytes([32]) * 2**20) for _ in range(LARGE >> 20)) + packing.flush()
            body = body if whole else gzip.compress(json.dumps({"probabilities": [[0.5]]}).encode())[:-12]
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bomb)
    Thread(target=server.serve_forever, daemon=True).start()
    options = {"labels": ["ill"], "retries": 0}
    model = http.load(f"//127.0.0.1:{server.server_address[1]}/", options, folder=Path())
    with pytest.raises(ModelError, match="larger than 64 MB" if whole else "connection failed"):
        model.predict(Inputs.from_texts(["a note"]))
    server.shutdown()
