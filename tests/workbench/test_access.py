"""Who gets in, what is refused, and that nothing leaks: each attack against a real server."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from palpate import workbench
from palpate.errors import ConfigError
from palpate.workbench.guard import Allowance
from palpate.workbench.log import ActionLog
from palpate.workbench.options import BenchOptions
from tests.e2e.command_line import CommandLine

from .server import Served


def test_without_a_session_nothing_is_shown(served: Served) -> None:
    stranger = served.anybody()
    for path in ("/", "/runs", "/runs/of/bench-run", "/people", "/people/log", "/runs/history"):
        answer = stranger.get(path)
        assert answer.url.path == "/enter"
        assert "Fever" not in answer.text
    assert stranger.send("/people", name="Mallory", role="rater", days="3").status_code == 401
    assert [person.name for person in served.bench.register.everybody()] == []


def test_every_answer_forbids_caching_framing_and_foreign_content(served: Served) -> None:
    member = served.member("Ann", "coordinator")
    for path in ("/enter", "/", "/runs", "/nowhere"):
        headers = member.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_a_wrong_or_expired_link_is_refused_and_logged(served: Served) -> None:
    token = served.token("Ann", "rater", days=-1)
    for given in ("wrong", token, ""):
        answer = served.anybody().post("/enter", data={"token": given})
        assert answer.status_code == 403
        assert "wrong or has expired" in answer.text
    assert served.logged().count('"why": "link"') == 3
    assert token not in served.logged()


def test_guessing_links_is_slowed_down(served: Served) -> None:
    guesser = served.anybody()
    codes = [guesser.post("/enter", data={"token": f"guess{k}"}).status_code for k in range(25)]
    assert codes[0] == 403
    assert codes[-1] == 429
    assert '"why": "rate"' in served.logged()


def test_a_right_link_works_from_an_address_with_wrong_ones(served: Served) -> None:
    """A clinic comes from one address: a colleague's old links lock nobody out, and wrong ones stay refused."""
    token, guesser = served.token("Ann", "viewer"), served.anybody()
    while guesser.post("/enter", data={"token": "guess"}).status_code != 429:
        pass
    ann = served.anybody()
    assert ann.enter(token).status_code == 200
    assert ann.get("/runs").url.path == "/runs"
    assert guesser.post("/enter", data={"token": "guess"}).status_code == 429


def test_a_session_ends_with_its_link(served: Served) -> None:
    ann, boss = served.member("Ann", "viewer"), served.member("Boss", "coordinator")
    assert "Runs" in ann.get("/runs").text
    number = next(person.id for person in served.bench.register.everybody() if person.name == "Ann")
    boss.send(f"/people/{number}/shut-out")
    assert ann.get("/runs").url.path == "/enter"


def test_signing_out_ends_the_session(served: Served) -> None:
    ann = served.member("Ann", "viewer")
    cookie = ann.cookies["palpate"]
    assert ann.send("/leave").url.path == "/enter"
    again = served.anybody()
    again.cookies.set("palpate", cookie)
    assert again.get("/runs").url.path == "/enter"


def test_secrets_are_kept_as_hashes_and_sessions_outlive_a_restart(served: Served) -> None:
    token = served.token("Ann", "viewer")
    ann = served.anybody()
    ann.enter(token)
    kept = b"".join(path.read_bytes() for path in served.options.home.iterdir())
    for secret in (token, ann.cookies["palpate"]):
        assert secret.encode() not in kept
    assert (served.options.home / "entries.sqlite").stat().st_mode & 0o077 == 0
    assert (served.options.home / "actions.jsonl").stat().st_mode & 0o077 == 0


def test_a_post_from_another_site_is_refused(served: Served) -> None:
    boss = served.member("Boss", "coordinator")
    form = {"csrf": boss.csrf, "name": "Mallory", "role": "coordinator", "days": "3"}
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert boss.post("/people", data=form, headers=headers).status_code == 403
    assert boss.post("/people", data={**form, "csrf": "x" * 32}).status_code == 403
    assert boss.post("/people", data={k: v for k, v in form.items() if k != "csrf"}).status_code == 403
    assert "Mallory" not in boss.get("/people").text
    assert served.logged().count('"why": "origin"') == 3
    assert served.logged().count('"why": "token"') == 2


def test_another_host_name_is_refused(served: Served) -> None:
    """DNS rebinding: the attacker's name leads to this machine, and the browser says the name."""
    member = served.member("Ann", "viewer")
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1", "localhost:1", ""):
        answer = member.get("/runs", headers={"host": host})
        assert answer.status_code == 421
        assert "Fever" not in answer.text
    assert member.get("/runs", headers={"host": f"localhost:{served.port}"}).status_code == 200
    assert served.logged().count('"why": "host"') == 5


def test_two_host_headers_are_refused(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as raw:
        hosts = f"Host: 127.0.0.1:{served.port}\r\nHost: evil.example\r\n"
        raw.sendall(f"GET /enter HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        status = raw.recv(64).split(b" ")[1]
    assert status in (b"400", b"421")


@pytest.mark.parametrize("path", ["/runs/of/..%2f..", "/runs/of/../../etc/passwd", "/runs/of/%2e%2e/report"])
def test_run_names_are_no_paths(served: Served, path: str) -> None:
    member = served.member("Ann", "viewer")
    assert member.get(path).status_code == 404
    assert '"why": "path"' in served.logged()
    assert "passwd" not in served.logged()


def test_only_listed_files_are_downloaded(served: Served, project: Path) -> None:
    member = served.member("Ann", "viewer")
    for name in (
        "../notes.csv",
        "..%2fnotes.csv",
        "predictions/lr.parquet",
        "/etc/passwd",
        "results%2f..%2fmanifest.json",
    ):
        assert member.get(f"/runs/of/{project.name}-run/files/{name}").status_code == 404
    got = member.get(f"/runs/of/{project.name}-run/files/scorecard.json")
    assert got.content == (project / "run" / "scorecard.json").read_bytes()
    assert "attachment" in got.headers["content-disposition"]


def test_oversized_input_is_refused(served: Served) -> None:
    boss = served.member("Boss", "coordinator")
    assert boss.send("/people", name="x" * 300_000, role="rater", days="3").status_code == 413
    assert boss.post("/people", content=(b"csrf=" + b"x" * 1000 for _ in range(400))).status_code == 413  # no length
    assert boss.send("/people", name="x" * 61, role="rater", days="3").status_code == 400
    assert boss.send("/people", name="Max", role="rater", days="9" * 19).status_code == 400


def test_a_field_that_is_too_long_is_refused_and_logged(served: Served) -> None:
    member = served.member("Ann", "coordinator")
    assert member.send("/people", name="secret" * 5_000, role="rater", days="3").status_code == 400
    lines = [line for line in served.bench.log.lines() if line["did"] == "refused"]
    assert [(line["why"], line["who"], line["door"]) for line in lines] == [("size", "Ann", "/people")]
    assert "secret" not in served.logged()
    stranger = served.anybody()
    assert stranger.post("/enter", data={"token": "secret" * 100}).status_code == 400
    assert served.bench.log.lines(1)[0]["door"] == "/enter"


def test_script_in_names_and_titles_is_shown_as_text(served: Served) -> None:
    boss = served.member("Boss", "coordinator")
    page = boss.send("/people", name="<script>alert(1)</script>", role="rater", days="3").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<b>Fever</b>" not in boss.get("/runs").text


def test_a_role_opens_its_own_doors_only(served: Served) -> None:
    rater = served.member("Ann", "rater")
    assert "/runs" not in rater.get("/").text
    for path in ("/runs", "/runs/compare?run=bench-run", "/people", "/people/log"):
        answer = rater.get(path)
        assert answer.status_code == 403
        assert "Fever" not in answer.text
    assert rater.send("/people", name="Mallory", role="coordinator", days="3").status_code == 403
    assert "role" in served.logged()


def test_too_many_requests_are_refused() -> None:
    allowance = Allowance(50.0, 3)
    assert [allowance.take("a") for _ in range(4)] == [True, True, True, False]
    assert allowance.take("b")
    time.sleep(0.05)
    assert allowance.take("a")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0"}, "unencrypted"),
        ({"host": "192.168.1.5"}, "unencrypted"),
        ({"host": "0.0.0.0", "behind_proxy": True}, "public address"),
        ({"behind_proxy": True, "address": "http://bench.example"}, "need https"),
        ({"address": "bench.example"}, "expected https"),
        ({"certificate": Path("none.pem")}, "go together"),
    ],
)
def test_what_would_be_unsafe_is_not_started(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BenchOptions(runs=(Path("run"),), **given).check()  # type: ignore[arg-type]


def test_the_names_that_are_answered() -> None:
    here = BenchOptions(runs=(Path("run"),))
    assert here.hosts == {"127.0.0.1:8765", "localhost:8765", "[::1]:8765"}
    proxied = BenchOptions(runs=(Path("run"),), behind_proxy=True, address="https://Bench.Example/")
    assert proxied.hosts == {"bench.example"}
    assert proxied.is_https
    secure = BenchOptions(runs=(Path("run"),), host="10.0.0.5", port=443, certificate=Path("c"), key=Path("k"))
    assert secure.origins == {"https://10.0.0.5", "https://10.0.0.5:443"}
    assert secure.hosts == {"10.0.0.5", "10.0.0.5:443"}
    plain = BenchOptions(runs=(Path("run"),), port=80)
    assert plain.origins >= {"http://localhost", "http://localhost:80", "http://[::1]"}
    odd = BenchOptions(runs=(Path("run"),), behind_proxy=True, address="https://bench.example:80")
    assert odd.origins == {"https://bench.example:80"}, "80 is no default of https"


def test_people_sign_in_on_the_default_port(project: Path, tmp_path: Path) -> None:
    """Browsers leave the default port out of `Host` and of `Origin`."""
    with Served(project / "run", folder=tmp_path / "bench", address="http://bench.example:80") as served:
        for name, origin in (("Ann", "http://bench.example"), ("Bob", "http://bench.example:80")):
            member = served.anybody({"host": "bench.example", "origin": origin})
            answer = member.post("/enter", data={"token": served.token(name, "rater")}, follow_redirects=False)
            assert answer.status_code == 303, answer.text
        other = served.anybody({"host": "bench.example", "origin": "http://bench.example:8080"})
        assert other.post("/enter", data={"token": "x"}).status_code == 403


def test_the_command_line_says_what_is_wrong(palpate: CommandLine, tmp_path: Path) -> None:
    for words, says in (
        (["serve", tmp_path / "none"], "not a run directory"),
        (["serve", tmp_path, "--host", "0.0.0.0"], "unencrypted"),
        (["serve", tmp_path, "--person", "Ann"], "expected NAME=ROLE"),
        (["serve", tmp_path, "--person", "Ann=king"], "unknown role 'king'"),
    ):
        ran = palpate(*words)
        assert (ran.code, says in " ".join(ran.err.split())) == (2, True), ran.err


def test_behind_a_proxy_only_its_name_is_answered(project: Path, tmp_path: Path) -> None:
    options = {"behind_proxy": True, "address": "https://bench.example"}
    with Served(project / "run", folder=tmp_path / "bench", **options) as served:
        member = served.anybody({"origin": "https://bench.example", "host": "bench.example"})
        answer = member.post("/enter", data={"token": served.token("Ann", "viewer")}, follow_redirects=False)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-palpate=")
        assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict", "Path=/"))
        assert "max-age" in answer.headers["strict-transport-security"]
        assert served.anybody().get("/enter").status_code == 421  # past the proxy


def test_with_tls_files_it_speaks_https(project: Path, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([openssl, *words, *subject, "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Served(project / "run", folder=tmp_path / "bench", certificate=cert, key=key) as served:
        url = f"https://localhost:{served.port}"
        trusted = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=url, verify=trusted, trust_env=False, headers={"origin": url}) as client:
            answer = client.post("/enter", data={"token": served.token("Ann", "viewer")})
            assert answer.headers["set-cookie"].startswith("__Host-palpate=")
            assert "Runs" in client.get("/runs").text
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{served.port}/enter", trust_env=False)


def test_a_port_that_is_taken_is_said(served: Served) -> None:
    with pytest.raises(ConfigError, match="address already in use"):
        served.options.check_port()


def test_a_person_is_named_once_and_the_coordinator_stays_one(served: Served) -> None:
    with pytest.raises(ConfigError, match="named twice"):
        workbench.people_of(["Dr. A=rater", "dr.  a=coder"])
    register = served.bench.register
    for given in (["Coordinator=rater", "Dr. A=rater"], ["Dr. A=coder"], ["Dr. A=coder"]):
        tokens = workbench.new_tokens(register, workbench.people_of(given), 1)
        roles = {person.name: person.roles for person in register.everybody()}
        assert "coordinator" in roles["coordinator"]
        assert roles["Dr. A"] == {given[-1].partition("=")[2]}
        assert all(register.enter(token) for token in tokens.values()), "a link that is told works"
    assert set(tokens) == {"coordinator"}, "a link stays as it was where the roles did"


def test_refusals_push_out_nothing_that_people_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palpate.workbench.log.LARGEST", 1_000)
    log = ActionLog(tmp_path / "actions.jsonl")
    log.write("entered", who="Ann")
    for _ in range(200):
        log.write("refused", why="host")
    assert any(line["did"] == "entered" for line in log.lines())
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 4_000
