"""The JSON schema of `audit.yaml`, with which editors complete and check it: `palpate schema`.

It is made from what reads the file: the fields of `Config`, `TableSpec` and the adapters' options, and the fields of
the audits' dataclasses, each with the docstring below it. `audit.schema.json` beside this module is the schema of the
built-in audits; a plug-in's audits are in what `palpate schema` prints where it is installed.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    TypeAdapter,
)

from palpate import registry
from palpate.config import Config, ModelConfig
from palpate.data.tables import LabelList, TableSpec

Schema = dict[str, Any]
ADDRESS = "https://json-schema.org/draft/2020-12/schema"
_RUN_WIDE = ("include_text", "margins")
_SCALAR = {"type": ["string", "number", "boolean"]}
SHARED = {
    "labels": "Only these labels; default: all.",
    "most_common": "Without `labels`, so many labels, the most frequent ones.",
    "split": "The split that is audited; all cases where the cohort has none.",
    "cohort": "The cohort that is audited; default: the first one.",
    "threshold": "The decision threshold: a number, or how it is chosen; `auto` takes the model's own if it has one.",
    "target_recall": "The recall that a chosen threshold reaches on the validation split.",
    "unit": "What is resampled: patients, or cases.",
    "n_replicates": "Bootstrap replicates.",
    "level": "The level of the intervals.",
    "correction": "How comparisons of one family are corrected.",
    "family": "Which comparisons are corrected together.",
    "n_bins": "Bins of the calibration curve.",
    "max_notes": "At most so many notes, drawn at random.",
    "examples": "How many examples the report shows.",
    "top": "How many the report shows.",
    "cuts": "By attribute, where a number is cut into groups, as in `age: [18, 65]`.",
    "n_quantiles": "Groups of equal size that a number such as age is cut into.",
    "n_words": "How many words are chosen, where `words` says how.",
    "filters": "What proposes substitutes for a word: all words, words as frequent, words that fit the context.",
    "specificity": "The specificity at which sensitivity is measured.",
}
"""Options that several audits have, where an audit does not say more about its own."""
_FILE: Schema = {"type": "string", "description": "The name of a file, from the folder of audit.yaml."}


def config_schema(*, plug_ins: bool = True) -> Schema:
    """The schema of the whole file; without `plug_ins` only palpate's own audits and model schemes."""
    shared: Schema = {}
    properties = {name: _field(hint, shared) for name, hint in _hints(Config).items()}
    cohort = _object(TableSpec, shared, required=["file"])
    cohort["properties"]["label_list"] = _object(LabelList, shared, required=["column"])
    either = {"anyOf": [_FILE, cohort]}
    properties["cohort"] = either
    properties["cohorts"] = {"type": "object", "additionalProperties": either}
    properties["models"] = {"type": "object", "minProperties": 1, "additionalProperties": _model(shared, plug_ins)}
    properties["audits"] = _audits(shared, plug_ins)
    for name, text in docstrings(Config).items():
        if name in properties:
            properties[name] = {"description": text, **properties[name]}
    return {
        "$schema": ADDRESS,
        "title": "audit.yaml of palpate",
        "type": "object",
        "properties": properties,
        "required": ["models", "audits"],
        "oneOf": [{"required": ["cohort"]}, {"required": ["cohorts"]}],
        "additionalProperties": False,
        "$defs": dict(sorted(shared.items())),
    }


def schema_text(schema: Schema) -> str:
    """The schema as JSON with a line for each option, so that differences can be read."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).replace('},"', '},\n"') + "\n"


def docstrings(kind: type) -> dict[str, str]:
    """What stands below each field of a class, also of those that it inherits."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        try:
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        except (OSError, TypeError, ValueError, SyntaxError):  # builtins have no source
            continue
        body = node.body if isinstance(node, ast.ClassDef) else []
        for field, below in pairwise(body):
            name = getattr(getattr(field, "target", None), "id", None)
            text = getattr(getattr(below, "value", None), "value", None)
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(text, str) and name:
                found[name] = " ".join(text.split())
    return found


def _hints(kind: type) -> dict[str, Any]:
    """The types of a model's or dataclass's fields, as they are written."""
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return {
            name: Annotated[each.annotation, *each.metadata] if each.metadata else each.annotation
            for name, each in fields
        }
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]


def _object(kind: type, shared: Schema, *, required: list[str], extra: bool = False) -> Schema:
    """A mapping with the fields of a class."""
    said = {**SHARED, **docstrings(kind)} if dataclasses.is_dataclass(kind) else docstrings(kind)
    fields = {name: {**_described(said.get(name)), **_field(hint, shared)} for name, hint in _hints(kind).items()}
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": extra}


def _described(text: str | None) -> Schema:
    return {"description": text} if text else {}


def _field(hint: Any, shared: Schema) -> Schema:
    """The schema of one field; anything where JSON has no words for it, as for a table that is read from a file."""
    try:
        schema = TypeAdapter(hint).json_schema(ref_template="#/$defs/{model}")
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return {}
    for name, definition in schema.pop("$defs", {}).items():
        if shared.setdefault(name, definition) != definition:
            raise ValueError(f"two classes are called {name}")
    # What a validator makes of a single value, such as a list of one, the schema of the result does not say.
    return {"anyOf": [schema, _SCALAR]} if any(_coerced(hint)) else schema


def _coerced(hint: Any) -> Iterator[bool]:
    """Whether a validator runs before the type is checked, anywhere in an annotation."""
    if get_origin(hint) is Annotated:
        yield any(isinstance(each, BeforeValidator) for each in get_args(hint)[1:])
        yield from _coerced(get_args(hint)[0])
    else:
        for part in get_args(hint):
            yield from _coerced(part)


def _model(shared: Schema, plug_ins: bool) -> Schema:
    """A source, a list of them (seeds), or a mapping with options of the adapter."""
    source = {"type": "string", "pattern": "^[a-z]+:.", "description": "scheme:target, such as hf:models/bert"}
    seeds = {"type": "array", "items": source, "minItems": 1}
    entry = _object(ModelConfig, shared, required=["source"], extra=True)
    entry["properties"]["source"] = {"anyOf": [source, seeds]}
    for scheme in _names("models", plug_ins):
        for options in _options_of(registry.find("models", scheme)):
            for name, schema in _object(options, shared, required=[])["properties"].items():
                known = entry["properties"].setdefault(name, schema)
                entry["properties"][name] = _either(known, schema)
    return {"anyOf": [source, seeds, entry]}


def _options_of(load: Any) -> list[type[BaseModel]]:
    """The options of an adapter; an endpoint has one kind for probabilities and one for chat."""
    said = get_type_hints(getattr(load, "check", None) or (lambda: None)).get("return")
    return [kind for kind in (get_args(said) or (said,)) if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _either(one: Schema, other: Schema) -> Schema:
    """What an option may be where two adapters have it; the description is that of the first."""
    text = one.get("description")
    bare = [{key: part for key, part in each.items() if key != "description"} for each in (one, other)]
    allowed: list[Schema] = []
    for each in bare:
        allowed += [part for part in (each["anyOf"] if set(each) == {"anyOf"} else [each]) if part not in allowed]
    return {**_described(text), **(allowed[0] if len(allowed) == 1 else {"anyOf": allowed})}


def _audits(shared: Schema, plug_ins: bool) -> Schema:
    """Each audit with its options; `false` leaves it out, nothing behind it means the defaults."""
    properties = {}
    for name in _names("audits", plug_ins):
        kind = registry.find("audits", name)
        about = inspect.getdoc(kind) or ""
        options: list[Schema] = [_audit(kind, shared), {"type": ["boolean", "null"]}]
        properties[name] = {"description": " ".join(about.partition("\n\n")[0].split()), "anyOf": options}
    own = {"type": ["object", "boolean", "null"], "description": "An audit of your own: python:module:Class."}
    return {
        "type": "object",
        "minProperties": 1,
        "properties": properties,
        "patternProperties": {"^python:": own},
        "additionalProperties": False,
    }


def _audit(kind: type, shared: Schema) -> Schema:
    schema = _object(kind, shared, required=[])
    for field in dataclasses.fields(kind):
        if field.name in _RUN_WIDE:
            del schema["properties"][field.name]
        elif {"file", "files", "values", "source"} & field.metadata.keys():
            schema["properties"][field.name] = _or_files(schema["properties"][field.name])
    return schema


def _or_files(schema: Mapping[str, Any]) -> Schema:
    """A value, or the name of a file that holds it; a list or mapping of names where there are several."""
    text = schema.get("description")
    value = {key: part for key, part in schema.items() if key != "description"}
    files: Schema = {"type": ["string", "array", "object"]}
    return {**_described(text), "anyOf": [value, files] if value else [files]}


def _names(kind: str, plug_ins: bool) -> list[str]:
    """What is registered and can be imported, without what other packages registered unless asked for."""
    found = []
    for name in registry.names(kind):
        try:
            module = str(getattr(registry.find(kind, name), "__module__", ""))
        except ImportError:  # a plug-in whose package is broken must not keep others from being completed
            continue
        if plug_ins or module.startswith("palpate."):
            found.append(name)
    return found
