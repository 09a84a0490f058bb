"""Template suites: what a model should be able to do, as sentences with slots (ADE template paper, section 3).

`load_suite("ade")` reads a suite, `suite.default_cases(rng)` is its default run, `suite.sample(n, rng)` draws from all
variations with all fill-ins without expanding them.

Reads a suite's YAML and checks all of it, so that a mistake is reported with its line before any scoring.

suite: mine
labels: {positive: ADE, negative: no ADE}
lexicons: {drug: [Zoloft, Prozac], effect: effects.yaml, time: times.yaml}
slots: {longer: time, shorter: time}                            # further slots of a lexicon
relations: [{more: longer, than: shorter, by: days}]
sizes: {drug: 2}                                                # values in a default run (10 by default)
variations: one                                                 # or all: variations in a default run
language: en                                                    # rules of English writing are for English only
include: [more.yaml]                                            # files with further `capabilities:`
capabilities:
  - id: negation
    tests:
      - id: negated
        type: MFT
        label: no ADE
        templates:
          - {id: negated-01, text: "I [took|take] {drug} without {effect}."}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

from palpate.errors import ConfigError
from palpate.files import YamlNode, read_yaml
from palpate.perturb.suites.cases import Case, Filled, SuiteCases
from palpate.perturb.suites.expectations import ExpectedCase, RightAnswer
from palpate.perturb.suites.lexicons import Lexicon, read_lexicon
from palpate.perturb.suites.patterns import Flat
from palpate.perturb.suites.readers import Classes, TestReader
from palpate.perturb.suites.schema import Capability, Change, SlotRelation, SuiteLabels, Template, Test
from palpate.perturb.suites.suite import Dropped, Suite
from palpate.perturb.suites.wellformed import Flaw, find_flaws

__all__ = [
    "Capability",
    "Case",
    "Change",
    "Dropped",
    "ExpectedCase",
    "Filled",
    "Flaw",
    "RightAnswer",
    "SlotRelation",
    "Suite",
    "SuiteCases",
    "SuiteLabels",
    "Template",
    "Test",
    "find_flaws",
    "list_suites",
    "load_suite",
    "read_suite_yaml",
]


_TOP = (
    *("suite", "title", "about", "labels", "lexicons", "slots", "choose", "relations", "sizes", "include"),
    *("variations", "language", "capabilities"),
)


def suites_folder() -> Path:
    """Where palpate's own suites and lexicons are."""
    return Path(str(resources.files("palpate.perturb.suites")))


def list_suites() -> list[str]:
    """The names of palpate's own suites.

    >>> "ade" in list_suites()
    True
    """
    return sorted(file.stem for file in suites_folder().glob("*.yaml"))


def load_suite(name: str) -> Suite:
    """One of palpate's own suites, by its name."""
    if name not in list_suites():
        hint = f"give one of {', '.join(list_suites())}, or a file: YAML, CSV or JSONL"
        raise ConfigError(f"unknown suite '{name}'", hint=hint)
    return read_suite_yaml(suites_folder() / f"{name}.yaml")


def read_suite_yaml(file: Path) -> Suite:
    """A suite from its YAML file."""
    return _Reader(file).read()


class _Reader:
    """Reads one suite, step by step."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.root = read_yaml(file, needs="`suite:` and `capabilities:`")
        self.given = self.root.mapping("the suite", known=_TOP)

    def read(self) -> Suite:
        lexicons = self._lexicons()
        labels, classes, exclusive = self._labels()
        given = self.given.get("variations")
        variations = given.choice("variations", ("one", "all")) if given else "one"
        reader = TestReader(labels, lexicons, variations, Classes(classes, exclusive))
        capabilities = self._capabilities(reader)
        choose = self.given["choose"].texts("choose") if "choose" in self.given else []
        for name in choose:
            _known_slot(self.given["choose"], name, lexicons)
        suite = Suite(
            name=self.root.require("suite", "the suite").text("suite"),
            capabilities=tuple(capabilities),
            lexicons=lexicons,
            relations=tuple(self._relations(lexicons)),
            sizes=reader.sizes(self.given["sizes"]) if "sizes" in self.given else {},
            labels=labels,
            title=self.given["title"].text("title") if "title" in self.given else "",
            about=self.given["about"].text("about") if "about" in self.given else "",
            choose=tuple(choose),
            classes=classes,
            language=self.given["language"].text("language") if "language" in self.given else "en",
            file=self.file,
        )
        check_templates(suite)
        return suite

    def _labels(self) -> tuple[SuiteLabels, tuple[str, ...], bool]:
        """The two labels, or several ones and whether they exclude each other."""
        if "labels" not in self.given:
            return SuiteLabels(), (), False
        node = self.given["labels"]
        given = node.mapping("labels", known=("positive", "negative", "classes", "each"))
        several = [key for key in ("classes", "each") if key in given]
        if several:
            names = given[several[0]].texts(several[0])
            if len(given) > 1 or len(names) < 2 or len(set(names)) < len(names):
                hint = "write `labels: {classes: [one, other, third]}` or `labels: {each: [one, other]}`"
                raise node.error("`labels` needs at least two different names, and nothing else", hint=hint)
            return SuiteLabels(), tuple(names), several[0] == "classes"
        words = [node.require(key, "labels").text(key) for key in ("positive", "negative")]
        if words[0] == words[1]:
            raise node.error(f"both labels are called '{words[0]}'", hint="give them different names")
        return SuiteLabels(*words), (), False

    def _lexicons(self) -> dict[str, Lexicon]:
        """Lexicons by slot: a lexicon's own name is a slot, and `slots:` adds others."""
        lexicons: dict[str, Lexicon] = {}
        if "lexicons" in self.given:
            for name, node in self.given["lexicons"].mapping("lexicons").items():
                lexicons[name] = read_lexicon(node, name, self.file.parent)
        if "slots" in self.given:
            named = dict(lexicons)
            for slot, node in self.given["slots"].mapping("slots").items():
                if slot in lexicons:
                    raise node.error(f"slot '{slot}' has the name of a lexicon", hint="choose another name")
                name = node.text("slots")
                if name not in named:
                    hint = f"the lexicons are: {', '.join(named) or 'none'}"
                    raise node.error(f"slot '{slot}' refers to a lexicon '{name}' that is not declared", hint=hint)
                lexicons[slot] = named[name]
        return lexicons

    def _relations(self, lexicons: Mapping[str, Lexicon]) -> Iterator[SlotRelation]:
        above: dict[str, set[str]] = {}
        for node in self.given["relations"].items("relations") if "relations" in self.given else ():
            given = node.mapping("a relation", known=("more", "than", "different", "by", "ratio", "sample"))
            sample = given["sample"].whole("sample") if "sample" in given else None
            if "different" in given:
                slots = given["different"].texts("different")
                if len(slots) != 2 or slots[0] == slots[1]:
                    raise node.error("`different` needs two slots", hint="write different: [one, other]")
                by = given["by"].text("by") if "by" in given else "head"
                relation = SlotRelation("different", slots[0], slots[1], by=by, sample=sample)
            else:
                first, second, by = (node.require(key, "a relation").text(key) for key in ("more", "than", "by"))
                ratio = given["ratio"].number("ratio", low=1) if "ratio" in given else 1.0
                relation = SlotRelation("more", first, second, by=by, ratio=ratio, sample=sample)
                above.setdefault(first, set()).add(second)
                if first in _reached(above, first):
                    hint = "remove one of the relations"
                    raise node.error(f"'{first}' would have to be more than itself, which is a cycle", hint=hint)
            for slot in (relation.first, relation.second):
                _known_slot(node, slot, lexicons)
            yield relation

    def _capabilities(self, reader: TestReader) -> list[Capability]:
        found: list[Capability] = []
        for root in _files(self.root, (self.file.resolve(),)):
            if "capabilities" in root.mapping("the file"):
                for node in root.require("capabilities", "the file").items("capabilities"):
                    capability = reader.capability(node)
                    if any(capability.id == other.id for other in found):
                        raise node.error(
                            f"capability '{capability.id}' is given twice", hint="rename one, or merge them"
                        )
                    found.append(capability)
        if not found:
            raise self.root.error("the suite has no `capabilities`", hint="add some, or `include` a file that has them")
        return found


def _files(root: YamlNode, opened: tuple[Path, ...]) -> Iterator[YamlNode]:
    """The file and those that it includes, each once, in order."""
    yield root
    given = root.mapping("the file")
    for node in given["include"].items("include") if "include" in given else ():
        file = root.file.parent / node.text("include")
        if file.resolve() in opened:
            raise node.error(f"'{file.name}' includes itself, a cycle", hint="remove one of the `include` lines")
        if not file.is_file():
            raise node.error(f"'{node.content}' is not found", hint="paths are relative to the including file")
        part = read_yaml(file, needs="`capabilities:`")
        part.mapping("an included file", known=("about", "include", "capabilities"))
        yield from _files(part, (*opened, file.resolve()))


def _reached(above: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(above.get(start, ()))
    while waiting:
        slot = waiting.pop()
        if slot not in reached:
            reached.add(slot)
            waiting += above.get(slot, ())
    return reached


def _known_slot(node: YamlNode, slot: str, lexicons: Mapping[str, Lexicon]) -> None:
    if slot not in lexicons:
        raise node.error(f"unknown slot '{slot}'", hint=f"the slots are: {', '.join(lexicons) or 'none'}")


def check_templates(suite: Suite) -> None:
    """Check what only the whole suite shows: duplicate ids or variations, and templates that no values fill."""
    ids: dict[str, Template] = {}
    written: dict[tuple[Flat, str], tuple[Template, int]] = {}
    for unit in suite.units:
        template = unit.template
        first = ids.setdefault(template.id, template)
        if first is not template:
            raise _twice(template, f"the id '{template.id}'", first)
        for at, flat in enumerate(unit.variations):
            second = unit.changed[at].written() if unit.changed else ""
            kind = f"{unit.test.type}/{unit.change}/{second}"
            first, place = written.setdefault((flat, kind), (template, at))
            if first is not template or place != at:
                raise _twice(template, f"a variation, '{flat.written()}',", first)
    for name, change, reason in suite.dropped:
        template = ids[name]
        under = f" under change '{change}'" if change else ""
        raise ConfigError(f"line {template.line}: template '{name}'{under}: {reason}", file=template.file)


def _twice(template: Template, what: str, first: Template) -> ConfigError:
    elsewhere = "" if first.file == template.file else f" of {first.file}"
    problem = f"line {template.line}: {what} occurs twice, first in line {first.line}{elsewhere}"
    return ConfigError(problem, file=template.file, hint="remove or reword one")
