"""What MkDocs calls while it builds the site: it adds the pages that are made from code.

reference/*.md   the public names of each module, as they are when the site is built
gallery/*.md     pages whose Python blocks are executed; their outputs are put below the blocks
glossary.md      the report's own glossary, so that page and report can't differ
methods.md       formulas between dollar signs become MathML, which browsers show without a script
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from website import gallery  # noqa: E402

GLOSSARY = ROOT / "src" / "palpate" / "report" / "glossary.yaml"
MODULES = ("palpate", "palpate.stats", "palpate.kit", "palpate.testing")
STATIC = ("site.css", "iframe-worker.js")
_FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<![\w$])\$(?P<inline>[^$\n]+?)\$(?![\w$])", re.DOTALL)
_FENCE = re.compile(r"^```(?P<kind>\w+)(?P<how> (?:run|file=\S+|exit=\d+))$", re.MULTILINE)
_CODE = re.compile(r"(```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)

_pieces: dict[str, gallery.Pieces] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder where the navigation has `FOLDER/*`."""
    config.nav = expanded(config.nav, Path(config.docs_dir))
    return config


def expanded(part: Any, docs: Path) -> Any:
    """The navigation with the pages of folders, in the order of their names."""
    if isinstance(part, str):
        return sorted(p.relative_to(docs).as_posix() for p in docs.glob(f"{part}.md")) if part.endswith("/*") else part
    if isinstance(part, dict):
        return {name: expanded(each, docs) for name, each in part.items()}
    return [expanded(each, docs) for each in part]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages and files that are not in docs/."""
    seen: dict[str, str] = {}
    for module in MODULES:
        name = module.rpartition(".")[2]
        files.append(File.generated(config, f"reference/{name}.md", content=reference_page(module, seen)))
    for name in STATIC:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / "website" / name)))
    for page in [file for file in files.documentation_pages() if file.src_uri.startswith("gallery/")]:
        if not page.src_uri.endswith("README.md"):
            for name, content in gallery.run(Path(str(page.abs_src_path))).items():
                files.append(File.generated(config, f"gallery/{name}", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Glossary, formulas and the outputs of the gallery; what is not Markdown comes back in `on_page_content`."""
    source, markdown = page.file.src_uri, _FENCE.sub(_fence, markdown)
    pieces = _pieces[source] = gallery.Pieces()
    if source == "glossary.md":
        return f"{markdown}\n{glossary(yaml.safe_load(GLOSSARY.read_text(encoding='utf-8')))}"
    if source == "methods.md":
        return with_formulas(markdown, pieces)
    if source.startswith("gallery/") and not source.endswith("README.md"):
        return gallery.shown(Path(page.file.abs_src_path), markdown, pieces)
    return markdown


def _fence(match: re.Match[str]) -> str:
    """The first line of a block, without what only the tests need to know; a file has its name as title."""
    name = match["how"].strip().removeprefix("file=") if "file=" in match["how"] else ""
    return f"```{match['kind']}" + (f' title="{name}"' if name else "")


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Put the pieces of HTML where their marks are."""
    return _pieces[page.file.src_uri].put_into(html)


def reference_page(module: str, seen: dict[str, str]) -> str:
    """A page with every public name of a module; what an earlier page has (`seen`) is a link to it."""
    loaded = import_module(module)
    lines = [f"# {module}\n", f"{(loaded.__doc__ or '').partition(chr(10))[0]}\n"]
    for name in public_names(loaded):
        home = home_of(module, name)
        lines.append(f"## `{name}`\n\nThe same as [{seen[home]}][{home}].\n" if home in seen else _entry(home))
        seen.setdefault(home, f"{module}.{name}")
    return "\n".join(lines)


def _entry(path: str) -> str:
    """What mkdocstrings makes of a name; one of several that are assigned at once is shown by its value."""
    home, _, name = path.rpartition(".")
    assigned = [node for node in _tree(home).body if isinstance(node, ast.Assign) and len(node.targets) == 1]
    several = [target for node in assigned if isinstance(target := node.targets[0], ast.Tuple)]
    if any(isinstance(part, ast.Name) and part.id == name for target in several for part in target.elts):
        return f"## `{name}`\n\n`{name} = {getattr(import_module(home), name)!r}`\n"
    return f"::: {path}\n"


def home_of(module: str, name: str) -> str:
    """Where a name is defined, through the modules that import it from each other."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("palpate"):
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module != module:
                    return home_of(node.module, alias.name)
    return f"{module}.{name}"


@cache
def _tree(module: str) -> ast.Module:
    file = import_module(module).__file__
    return ast.parse(Path(str(file)).read_text(encoding="utf-8"))


def public_names(module: Any) -> list[str]:
    """The names in `__all__`; without it, what the module itself defines."""
    named = getattr(module, "__all__", None)
    if named is not None:
        return [name for name in named if not name.startswith("__")]
    own = vars(module).items()
    return [name for name, value in own if getattr(value, "__module__", "") == module.__name__ and name[0] != "_"]


def glossary(terms: list[dict[str, str]]) -> str:
    """The terms as a definition list, in the order of the alphabet."""
    entries = sorted(terms, key=lambda term: term["name"].casefold())
    return "\n\n".join(f"{escape(term['name'])}\n:   {escape(term['meaning'])}" for term in entries)


def with_formulas(markdown: str, pieces: gallery.Pieces) -> str:
    """The text with MathML for its formulas; code is left alone."""

    def formula(match: re.Match[str]) -> str:
        block = match["block"] is not None
        tex = " ".join((match["block"] or match["inline"]).split())
        return pieces.keep(convert(tex, display="block" if block else "inline"))

    parts = _CODE.split(markdown)
    return "".join(part if k % 2 else _FORMULA.sub(formula, part) for k, part in enumerate(parts))
