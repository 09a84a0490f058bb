"""Everything that a person reads on a page is in one file, and another file of the same keys replaces it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from palpate import workbench
from palpate.errors import ConfigError
from palpate.workbench.app import SECTIONS
from palpate.workbench.pages import PageTexts, read_texts
from tests.e2e.command_line import CommandLine

from .server import Served

HERE = Path(workbench.__file__).parent
TEMPLATES = sorted((HERE / "templates").rglob("*.j2"))
MODULES = sorted(HERE.rglob("*.py"))
ENGLISH = HERE / "texts" / "en.yaml"
READ = ("title", "alt", "placeholder", "aria-label", "label", "aria-description", "value")
"""Attributes that are shown or spoken; a value is shown only where it is a button's, and then it is a key."""
FOR_THE_TERMINAL = {"options.py", "store.py", "__init__.py", "pages.py", "shelf.py"}
"""Modules whose other errors end the start, and are printed by the command line."""
PASSED_ON = {"evidence/imports.py", "words/__init__.py", "whatif/playground.py", "runs.py"}
"""Modules that hand on a sentence of palpate's own readers."""


def words_of(template: str) -> Iterator[str]:
    """The literal texts of a template: between tags, and in attributes that are read to people."""
    plain = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", template, flags=re.DOTALL)
    plain = re.sub(r"<(svg|style|kbd)\b.*?</\1>|<!doctype html>", "", plain, flags=re.DOTALL)
    for name in READ[:-1]:
        yield from re.findall(rf'\s{name}="([^"]*)"', plain)
    yield from re.findall(r'<input[^>]*type="(?:submit|button)"[^>]*value="([^"]*)"', plain)
    yield from re.sub(r"<[^>]*>", "\n", plain).splitlines()


def test_the_walk_finds_literal_texts() -> None:
    assert [w for w in words_of('<p title="Hi">{{ t("a") }} there</p>') if re.search(r"[a-z]", w)] == ["Hi", " there"]


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: str(file.relative_to(HERE)))
def test_templates_have_no_text_of_their_own(file: Path) -> None:
    found = [re.sub(r"&\w+;|\bpalpate\b", "", text).strip() for text in words_of(file.read_text(encoding="utf-8"))]
    assert [text for text in found if re.search(r"[^\W\d_]", text)] == []


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2], node


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(HERE)))
def test_handlers_have_no_sentence_of_their_own(file: Path) -> None:
    name = str(file.relative_to(HERE))
    for called, node in calls(file):
        if called in ("InputError", "RunError", "CohortError", "ModelError", "ConfigError"):
            if name in FOR_THE_TERMINAL:
                continue
            literal = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            told = [part.value for part in literal if isinstance(part.value, str) and " " in part.value.strip()]
            assert name in PASSED_ON, f"{name}:{node.lineno}: raise a BenchProblem"
            assert told in ([], ["line 1: "]), f"{name}:{node.lineno}: {told}"
        if called in ("HTMLResponse", "PlainTextResponse", "Response") and node.args:
            assert not isinstance(node.args[0], ast.Constant), f"{name}:{node.lineno}"


def used_keys() -> set[str]:
    """Every key that a template or a handler names."""
    used = set()
    for file in TEMPLATES:
        used |= set(re.findall(r"""\bt\(["']([\w.]+)["'][,)]""", file.read_text(encoding="utf-8")))
    for file in MODULES:
        for called, node in calls(file):
            first = node.args[0] if node.args else None
            named = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            keys = [each.value for each in named if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if called == "BenchProblem":
                used |= {f"problems.{key}" for key in keys}
            elif called == "texts":
                used |= set(keys)
            elif called == "RefusedRequest":
                used.add(f"refused.{node.args[1].value}")  # type: ignore[attr-defined]
            elif called == "log" or (called == "write" and "log.write" in ast.unparse(node.func)):
                used |= {f"log.did.{re.sub('[ -]', '_', key)}" for key in keys}
                used |= {f"log.details.{word.arg}" for word in node.keywords if word.arg not in (None, "who")}
                used |= {
                    f"log.why.{word.value.value}"
                    for word in node.keywords
                    if word.arg == "why" and isinstance(word.value, ast.Constant)
                }
            elif called in ("number", "field") and ast.unparse(node.func).startswith("visit."):
                used |= {f"fields.{key}" for key in keys if key not in HIDDEN}
    return used


HIDDEN = {
    *("csrf", "entry", "token", "source", "run", "where", "how", "decision", "kind", "mark", "highlights", "suite"),
    *("code_system", "annotator", "layer", "feature", "file", "read"),
}
"""Fields that nobody writes too long by accident: they are chosen, or made by the page."""


def test_every_key_that_is_used_is_in_the_texts_and_every_text_is_used() -> None:
    texts, used = PageTexts(), used_keys()
    assert used - texts.keys() == set()
    assert len(used) > 250
    for section in SECTIONS:
        assert {f"{section.name}.name", f"{section.name}.about"} <= texts.keys()
    made = {"language", "runs.of_model", "runs.of_label", "runs.of_group"}
    starts = ("people.roles.", "people.may.", "log.", "refused.", "fields.", "whatif.told.", "whatif.problems.")
    starts += ("whatif.crossing_", "alterations.marks.", "alterations.why.", "evidence.decided.", "evidence.why.")
    starts += ("evidence.by.", "evidence.letters.", "evidence.added_says.", "problems.told")
    said = {f"{section}.{key}" for section in ("words", "alterations", "evidence") for key in SAID}
    named = {f"{section.name}.{key}" for section in SECTIONS for key in ("name", "about")}
    idle = {key for key in texts.keys() - used - made - said - named if not key.startswith(starts)}
    assert idle == set()


SAID = ("saved", "undone", "nothing", "why_asked", "added")
"""What a page says after a change: built from a value in the address."""


def test_the_script_says_nothing_of_its_own() -> None:
    script = (HERE / "static" / "bench.js").read_text(encoding="utf-8")
    script = re.sub(r"//[^\n]*|/\*.*?\*/", "", script, flags=re.DOTALL)
    literal = [text for text in re.findall(r'"([^"\n]*)"', script) if re.search(r"[a-z]+ [a-z]+", text)]
    assert [text for text in literal if "[" not in text] == ["use strict", "main p"]


# --- another language ---------------------------------------------------------------------------------------


def translated(node: object) -> object:
    """Every sentence with its letters replaced, and what is filled in as it was."""
    if isinstance(node, dict):
        return {key: translated(value) for key, value in node.items()}
    parts = re.split(r"(\{\{.*?\}\}|\{\w+\})", str(node))
    return "".join(part if k % 2 else re.sub(r"[^\W\d_]", "ж", part) for k, part in enumerate(parts))


def test_another_file_replaces_every_text(project: Path, tmp_path: Path) -> None:
    all_texts = translated(yaml.safe_load(ENGLISH.read_text(encoding="utf-8")))
    assert isinstance(all_texts, dict)
    all_texts["language"] = "xx"
    file = tmp_path / "xx.yaml"
    file.write_text(yaml.safe_dump(all_texts, allow_unicode=True), encoding="utf-8")
    with Served(project / "run", folder=tmp_path / "bench", config=project / "audit.yaml", texts=file) as served:
        boss = served.member("ЖЖ", "coordinator,rater,coder,reviewer")
        boss.send("/words", title="Ж", source="list", words="9\n8")
        for path in ("/", "/words", "/words/1", "/words/1/list", "/words/1/progress", "/people", "/people/log",
                     "/evidence", "/alterations", "/whatif/templates", "/nowhere"):  # fmt: skip
            page = boss.get(path).text
            assert '<html lang="xx">' in page
            shown = list(words_of(re.sub(r"<(select|datalist|dl|code)\b.*?</\1>", "", page, flags=re.DOTALL)))
            shown = [re.sub(r"&\w+;|&#\d+;|\bpalpate\b|\w+=\w+|/\S*", "", text) for text in shown]
            found = [text for text in shown if re.search(r"[a-zA-Z]{2}", text)]
            assert [text for text in found if not allowed(path, text)] == [], path
        for answer in (
            boss.send("/words", title="", source="list", words="9\n8"),
            boss.send("/words/1/rate", at=0, score=99, entry="e"),
            boss.post("/words/1/rate", data={"csrf": "wrong"}),
        ):
            assert answer.status_code in (400, 403)
            assert not re.search(r"[a-zA-Z]{2}", re.sub(r"(?s)<head.*?</head>|<[^>]*>|palpate", "", answer.text))


def allowed(path: str, text: str) -> bool:
    """Names that palpate gives: hosts and titles in the log, suites, the example of a template."""
    logged = path == "/people/log" and bool(re.search(r"[\d.:/{}]|coordinator|Ж", text))
    return logged or "{" in text or (path == "/whatif/templates" and text.endswith(" ade"))


def test_a_text_that_is_missing_is_english(tmp_path: Path) -> None:
    file = tmp_path / "de.yaml"
    file.write_text('language: de\nwords: {progress: "{done} von {n} bewertet"}\n')
    texts = PageTexts(file)
    assert texts("words.progress", done=1, n=2) == "1 von 2 bewertet"
    assert texts("words.undo") == "Take back the last entry"
    assert texts.language == "de"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("words: {progres: x}", r"de\.yaml: no page has the text 'words\.progres'; did you mean 'words\.progress'\?"),
        ("zzzz: x", r"no page has the text 'zzzz'; take the keys"),
        ("words: x", "no page has the text 'words'"),
        ("language: no", "'language' is not a text; write it in quotes"),
        ("words: {undo: null}", r"'words\.undo' is not a text"),
        ("words: {undo: [a]}", r"'words\.undo' is not a text"),
        ('words: {undo: ""}', r"'words\.undo' is not a text"),
        ('words: {progress: "{done} {x}"}', r"'words\.progress': '\{x\}' is not filled in; .*\{done\}, \{n\}"),
        ('words: {progress: "{done.__class__}"}', "is not filled in"),
        ('words: {progress: "{done!r}"}', "is not filled in"),
        ('words: {progress: "{done:>99999999}"}', "is not filled in"),
        ('words: {progress: "{0}"}', "is not filled in"),
        ('words: {progress: "{done"}', "a brace is not closed"),
        ("- a", "de.yaml"),
        ("", "de.yaml"),
    ],
)
def test_wrong_texts_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "de.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        read_texts(file)
    assert "\n" not in str(caught.value)


def test_the_command_line_takes_a_file_of_texts(palpate: CommandLine, tmp_path: Path) -> None:
    ran = palpate("serve", tmp_path, "--texts", tmp_path / "none.yaml")
    assert ran.code == 2
    assert "none.yaml: file not found" in " ".join(ran.err.split())
