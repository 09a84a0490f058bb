"""Attacks that the pages do not invite: fixed sessions, smuggled and half requests, formulas, broken documents."""

from __future__ import annotations

import csv
import io
import json
import socket
import time
from pathlib import Path

import pytest

from palpate.data.annotations.uima_cas import write_json
from palpate.data.annotations.webanno import LayerSpan
from palpate.workbench.evidence.passages import places_of

from .server import Served
from .test_evidence import CODED, TEXT, decide, run, sent  # noqa: F401

pytest.importorskip("cassis")


@pytest.fixture
def charts(run: Path, tmp_path: Path):  # type: ignore[no-untyped-def]  # noqa: F811
    with Served(run, folder=tmp_path / "bench", show_notes=True) as started:
        yield started


def raw(served: Served, request: str, wait: float = 5) -> bytes:
    """What comes back for bytes that no HTTP library would send."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=wait) as connection:
        connection.sendall(request.encode())
        found = b""
        try:
            while part := connection.recv(65_536):
                found += part
        except TimeoutError:
            pass
    return found


def test_a_session_cannot_be_chosen_by_an_attacker(charts: Served) -> None:
    victim = charts.anybody()
    victim.cookies.set("palpate", "chosen-by-the-attacker")
    victim.enter(charts.token("Ann", "coder"))
    attacker = charts.anybody()
    attacker.cookies.set("palpate", "chosen-by-the-attacker")
    assert attacker.get("/evidence").url.path == "/enter"


def test_nobody_is_signed_in_as_somebody_else_from_another_site(charts: Served) -> None:
    token, victim = charts.token("Mallory", "coder"), charts.anybody()
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = victim.post("/enter", data={"token": token}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /people HTTP/1.1\r\nHost: x\r\n\r\n",
        "Content-Length: 4\r\nContent-Length: 40\r\n\r\nabcd",
        "Content-Length: -1\r\n\r\n",
        "Content-Length: 9999999999999999999999\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffff\r\nx",
    ],
)
def test_a_request_with_two_lengths_smuggles_nothing(charts: Served, headers: str) -> None:
    host = f"Host: 127.0.0.1:{charts.port}\r\n"
    found = raw(charts, f"POST /enter HTTP/1.1\r\n{host}Connection: close\r\n{headers}", wait=3)
    assert b" 200 " not in found.partition(b"\r\n")[0]
    assert b"HTTP/1.1 2" not in found
    assert charts.anybody().get("/enter").status_code == 200


@pytest.mark.parametrize(
    "target", ["http://evil.example/people", "//evil.example/people", "/people\x00", "/%00", "/../people", "*"]
)
def test_addresses_that_no_browser_asks_for(charts: Served, target: str) -> None:
    found = raw(charts, f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{charts.port}\r\nConnection: close\r\n\r\n")
    status = found.partition(b"\r\n")[0]
    assert any(code in status for code in (b" 400 ", b" 404 ", b" 303 ", b" 421 ")), status
    assert b"evil.example" not in found
    assert "evil" not in charts.logged()


def test_half_a_form_does_not_keep_a_connection(charts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palpate.workbench.guard.LONGEST_WAIT", 0.3)
    host = f"Host: 127.0.0.1:{charts.port}\r\n"
    begun = time.monotonic()
    found = raw(
        charts, f"POST /enter HTTP/1.1\r\n{host}Content-Length: 100\r\nConnection: close\r\n\r\ntoken=", wait=20
    )
    assert b" 408 " in found.partition(b"\r\n")[0]
    assert time.monotonic() - begun < 15
    assert '"why": "slow"' in charts.logged()


def test_tables_hold_no_formula(charts: Served) -> None:
    boss, ann = charts.member("Boss", "coordinator"), charts.member("=cmd|'/c calc'!A1", "coder")
    spans = [LayerSpan(one.begin, one.end, "custom.Code", {"icd": "=HYPERLINK(1)"}) for one in CODED]
    number = int(
        str(sent(boss, {"coder_file": ("=1+1.json", write_json(TEXT, spans).encode())}).url.path).split("/")[2]
    )
    decide(ann, number, 0, "reject")
    ann.send(f"/evidence/{number}/reason", at=0, kind="own", reason="+1+1", entry="r")
    ann.send(f"/evidence/{number}/add", note=0, first="fever", code="@SUM(1)", entry="n")
    rows = list(csv.reader(io.StringIO(boss.get(f"/evidence/{number}/export/csv").text)))
    assert len(rows) == 3
    assert [cell for row in rows for cell in row if cell.startswith(("=", "+", "@", "-"))] == []


def test_a_translation_cannot_bring_a_script(run: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "evil.yaml"
    file.write_text('people: {enter: "<script>alert(1)</script>", how: "\\"><img src=x onerror=alert(1)>"}\n')
    with Served(run, folder=tmp_path / "bench", texts=file) as served:
        page = served.anybody().get("/enter").text
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    "damage",
    [
        lambda cas: cas["%FEATURE_STRUCTURES"][3].update(icd=5),
        lambda cas: cas["%FEATURE_STRUCTURES"][3].update(begin=True),
        lambda cas: cas["%VIEWS"]["_InitialView"].update({"%MEMBERS": None}),
        lambda cas: cas["%VIEWS"].clear(),
        lambda cas: cas["%FEATURE_STRUCTURES"].append({"%TYPE": "uima.cas.FSArray", "%ID": 99, "%ELEMENTS": None}),
        lambda cas: cas["%FEATURE_STRUCTURES"].append(
            {"%TYPE": "custom.Code", "%ID": 3, "@sofa": 1, "begin": 0, "end": 1}
        ),
        lambda cas: cas.update({"%TYPES": []}),
    ],
)
def test_a_crafted_document_is_refused_or_comes_back_readable(charts: Served, damage) -> None:  # type: ignore[no-untyped-def]
    boss, ann = charts.member("Boss", "coordinator"), charts.member("Ann", "coder")
    spans = [LayerSpan(one.begin, one.end, "custom.Code", {"icd": one.code}) for one in CODED]
    cas = json.loads(write_json(TEXT, spans))
    damage(cas)
    answer = sent(boss, {"coder_file": ("a.json", json.dumps(cas).encode())})
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        for at in range(3):
            decide(ann, 1, at, "reject" if at else "accept")
        ann.send("/evidence/1/add", note=0, first="fever", code="R50.9", entry="n")
        assert boss.get("/evidence/1/export/cas").status_code == 200
    assert '"failed"' not in charts.logged()


def test_words_that_repeat_are_found_in_no_time() -> None:
    text, begun = "a " * 50_000, time.process_time()
    assert len(places_of(text, "a " * 900)) == 50_000 // 900
    with pytest.raises(Exception, match="not in the note"):
        places_of(text, "a " * 900 + "b")
    assert time.process_time() - begun < 1


def test_places_are_those_of_a_pattern() -> None:
    text = "Fever.\n\n No  fever,\tno İstanbul fever"
    assert [text[a:b] for a, b in places_of(text, "no fever,")] == ["No  fever,"]
    assert [text[a:b] for a, b in places_of(text, "FEVER")] == ["Fever", "fever", "fever"]
    assert [text[a:b] for a, b in places_of(text, "fever")] == ["fever", "fever"]
    assert [text[a:b] for a, b in places_of(text, "NO İstanbul")] == ["no İstanbul"]
