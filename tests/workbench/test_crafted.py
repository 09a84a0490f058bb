"""Requests that no page sends: each gets a sentence or "not there", with all headers, and never a failure."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from palpate.errors import InputError
from palpate.workbench.evidence import imports
from palpate.workbench.guard import Guard
from palpate.workbench.sections import read_number

from .server import Served

NINES = "9" * 5_000
SECRET = "zebrafinchnote"


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize("number", [NINES, "9" * 1_000, str(2**63)])
def test_a_number_that_is_too_large_is_not_there(served: Served, number: str) -> None:
    status = 414 if number == NINES else 404
    stranger, member = served.anybody(), served.member("Ann", "rater viewer")
    paths = (f"/words/{number}/rate", f"/whatif/kept/{number}/forget")
    answers = [who.send(path) for who in (stranger, member) for path in paths]
    answers += [member.get(f"/words/{number}"), member.get(f"/whatif/kept/{number}")]
    for answer in answers:
        assert answer.status_code == status
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert '"failed"' not in served.logged()
    assert served.logged().count('"why": "long"') == (len(answers) if status == 414 else 0)
    assert member.get(f"/words/{2**63 - 1}").status_code == 404


def test_a_failure_of_the_guard_has_headers_and_no_text(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(Guard, "_pass", fails)
    answer = served.anybody().get("/enter")
    assert answer.status_code == 500
    assert SECRET not in answer.text + served.logged()
    assert answer.headers["cache-control"] == "no-store"
    assert '"why": "ValueError"' in served.logged()


def test_places_that_are_no_numbers(served: Served) -> None:
    boss = served.member("Ann", "coordinator rater")
    made = boss.send("/words", title="Sheet", words="fever\ncough", instruction="Rate")
    assert made.status_code == 200, made.text
    for wrong in ("--5", "-5", NINES, "²", "", "1.5"):
        assert boss.send("/words/1/rate", at=wrong, score="3", entry="e").status_code == 400
        assert boss.get("/words/1", params={"at": wrong}).status_code == 200
        assert boss.get("/words/1/list", params={"moved": wrong}).status_code == 200
    assert [read_number(text) for text in ("7", "-7", "--7", NINES, "²", "٣", "")] == [7, -7, *[None] * 5]


@pytest.mark.parametrize(
    "names",
    [("a.json", "a.json/b.json"), ("f" * 300 + "/a.json",), ("𝐚" * 79 + "/a.json",), ("𝐚" * 79 + ".json",)],
)
def test_names_in_a_zip_file_that_no_folder_can_hold(names: tuple[str, ...]) -> None:
    content = zipped(**dict.fromkeys(names, json.dumps({"hadm_id": 1, "notes": []})))
    with pytest.raises(InputError, match="could not be unpacked") as raised:
        imports.read_file("charts.zip", content, imports.ReadHow(), by_model=False)
    assert "/tmp" not in str(raised.value)


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-16", "zip", "latin-1"])
def test_a_form_is_utf8_whatever_it_says(served: Served, charset: str) -> None:
    boss = served.member("Ann", "coordinator")
    fields = {"csrf": boss.csrf, "name": "Zoë \\ud800", "role": "rater", "days": "3"}
    parts = [f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    headers = {"content-type": f"multipart/form-data; charset={charset}; boundary=b"}
    answer = boss.post("/people", content=("".join(parts) + "--b--\r\n").encode(), headers=headers)
    assert answer.status_code == 200
    assert "Zoë \\ud800" in [person.name for person in served.bench.register.everybody()]
    wrong = {"content-type": "multipart/form-data; boundary="}
    assert boss.post("/people", content=b"x", headers=wrong).status_code == 400


def test_deleted_text_is_not_on_the_disk(served: Served) -> None:
    ann = served.member("Ann", "viewer")

    def on_disk() -> bool:
        return any(SECRET.encode() in path.read_bytes() for path in Path(served.options.home).iterdir())

    ann.send("/whatif/keep", title="Mine", note=f"{SECRET} " * 2_000, changed="other")
    ann.send("/whatif/keep", title="Other", note="fever", changed="other")
    assert on_disk()
    ann.send("/whatif/kept/1/forget")
    assert not on_disk()
    assert "fever" in ann.get("/whatif/kept/2").text
