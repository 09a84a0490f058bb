"""UIMA CAS, the other formats of INCEpTION: reads JSON and XMI (through dkpro-cassis), and writes JSON.

Offsets in the files count UTF-16 units, those of a `Document` characters. Spans are of every layer but sentences,
tokens and the document's own; relations, links and references between annotations are ignored, as in WebAnno's TSV.
XMI is exported together with a `TypeSystem.xml`; without it, the layers are taken from the file itself, and values are
text.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from palpate.data.annotations.webanno import Document, Layer, LayerSpan
from palpate.errors import CohortError, MissingExtra

TYPE_SYSTEM = "TypeSystem.xml"
_ANNOTATION, _DOCUMENT, _TOP = "uima.tcas.Annotation", "uima.tcas.DocumentAnnotation", "uima.cas.TOP"
_NO_LAYERS = tuple(f"de.tudarmstadt.ukp.dkpro.core.api.{part}.type." for part in ("segmentation", "metadata"))
_ENDS = ("Governor", "Dependent")
"""Features of a relation: the two annotations that it connects."""
_OWN = ("begin", "end", "sofa")
_VALUES = tuple(f"uima.cas.{name}" for name in ("String", "Integer", "Boolean", "Float", "Double", "Long", "Short"))
_XMI_ID = "{http://www.omg.org/XMI}id"
_AGAIN = "export the document again, and do not edit the file"


def read_json(content: bytes, file: Path) -> Document:
    """A document in UIMA CAS JSON; `file` is for messages."""
    cassis = _cassis()
    try:
        with _strictly():
            cas = cassis.load_cas_from_json(BytesIO(content))
    except Exception:  # the parser names no errors of its own, and what they say may quote a note
        hint = "export as UIMA CAS JSON, UIMA CAS XMI or WebAnno TSV v3.3"
        raise CohortError("the file is not UIMA CAS JSON", file=file, hint=hint) from None
    return _document(cas, file)._replace(raw=content)


def read_xmi(content: bytes, type_system: bytes | None, file: Path) -> Document:
    """A document in UIMA CAS XMI with its type system, where there is one."""
    cassis = _cassis()
    try:
        with _strictly():
            known = _types_of(content, cassis) if type_system is None else cassis.load_typesystem(BytesIO(type_system))
            cas = cassis.load_cas_from_xmi(BytesIO(content), typesystem=known)
    except Exception:  # the parser names no errors of its own: whatever it meets, the file is not what it should be
        hint = f"give the {TYPE_SYSTEM} that was exported with it, in the same folder or zip file"
        raise CohortError("the file is not UIMA CAS XMI, or not of this type system", file=file, hint=hint) from None
    return _document(cas, file)


def write_json(text: str, spans: Iterable[LayerSpan]) -> str:
    """A document in UIMA CAS JSON; every layer has the features of its spans, as text."""
    placed = sorted(spans, key=lambda span: (span.begin, span.end, span.layer, str(span.features)))
    unit = utf16_units(text)
    sofa = {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaNum": 1, "sofaID": "_InitialView", "mimeType": "text"}
    whole = {"begin": 0, "end": unit[-1], "language": "x-unspecified"}
    structures: list[dict[str, Any]] = [
        {**sofa, "sofaString": text},
        {"%ID": 2, "%TYPE": _DOCUMENT, "@sofa": 1, **whole},
    ]
    types: dict[str, dict[str, Any]] = {}
    for number, span in enumerate(placed, start=3):
        if not 0 <= span.begin <= span.end <= len(text):
            raise ValueError(f"span {number - 3} is not inside the text")
        layer = types.setdefault(span.layer, {"%NAME": span.layer, "%SUPER_TYPE": _ANNOTATION})
        layer |= {name: {"%NAME": name, "%RANGE": _VALUES[0]} for name in span.features}
        values = {name: value for name, value in span.features.items() if value is not None}
        place = {"@sofa": 1, "begin": unit[span.begin], "end": unit[span.end]}
        structures.append({"%ID": number, "%TYPE": span.layer, **place, **values})
    view = {"%SOFA": 1, "%MEMBERS": [row["%ID"] for row in structures[1:]]}
    return json.dumps({"%TYPES": types, "%FEATURE_STRUCTURES": structures, "%VIEWS": {"_InitialView": view}})


def utf16_units(text: str) -> list[int]:
    """For each character, and for the end, how many UTF-16 units come before it: an emoji has two."""
    points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)
    return [0, *np.cumsum(1 + (points > 0xFFFF)).tolist()]


def _cassis() -> Any:
    if find_spec("cassis") is None:
        raise MissingExtra("inception", needed_for="reading UIMA CAS (JSON or XMI)")
    import cassis

    return cassis


@contextmanager
def _strictly() -> Iterator[None]:
    """cassis only warns of an offset inside a character or beyond the text; that is an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="Not mapping external offset")
        yield


def _document(cas: Any, file: Path) -> Document:
    text = cas.sofa_string
    if text is None:
        raise CohortError("the document has no text", file=file, hint=_AGAIN)
    types = cas.typesystem
    layers: dict[str, Layer] = {}
    spans: list[LayerSpan] = []
    for one in cas.select_all_annotations():
        name = one.type.name
        if name.startswith(_NO_LAYERS) or types.subsumes(_DOCUMENT, name):
            continue
        layer = layers.setdefault(name, _layer(one.type))
        if layer.kind != "T_SP":
            continue
        if one.begin is None or one.end is None or not 0 <= one.begin <= one.end <= len(text):
            raise CohortError(f"an annotation of the layer {name} is not inside the text", file=file, hint=_AGAIN)
        spans.append(LayerSpan(one.begin, one.end, name, {column: _value(one, column) for column in layer.columns}))
    spans.sort(key=lambda span: (span.begin, span.end, span.layer, str(span.features)))
    return Document(text, tuple(layers.values()), tuple(spans))


def _layer(kind: Any) -> Layer:
    features = [feature for feature in kind.all_features if feature.name not in _OWN]
    relation = {feature.name for feature in features}.issuperset(_ENDS)
    columns = tuple(feature.name for feature in features if feature.rangeType.name in _VALUES)
    return Layer("T_RL" if relation else "T_SP", kind.name, columns or ("",))


def _value(one: Any, name: str) -> str | None:
    value = one.get(name) if name else None
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# --- XMI without a type system ----------------------------------------------------------------------------------


def _types_of(content: bytes, cassis: Any) -> Any:
    """INCEpTION's built-in layers, and those that the file has besides, all of whose values are text."""
    from lxml import etree

    types = cassis.load_dkpro_core_typesystem()
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    elements = [element for element in etree.fromstring(content, parser) if isinstance(element.tag, str)]
    by_id = {element.get(_XMI_ID): element for element in elements}
    values: dict[str, dict[str, list[str]]] = {}
    spans: set[str] = set()
    for element in elements:
        name = _type_name(element.tag)
        found = values.setdefault(name, {})
        for key, value in element.attrib.items():
            found.setdefault(key, []).append(value)
        if "begin" in element.attrib:
            spans.add(name)
    for name, found in values.items():
        if name.startswith("uima."):
            continue
        known = types.contains_type(name)
        kind = types.get_type(name) if known else types.create_type(name, _ANNOTATION if name in spans else _TOP)
        there = {feature.name for feature in kind.all_features}
        for key, given in found.items():
            if key not in there and key != _XMI_ID and key not in _OWN:
                types.create_feature(kind, key, _range(key, given, by_id))
    return types


def _range(key: str, given: Sequence[str], by_id: dict[str | None, Any]) -> str:
    """Text, unless it is what a relation connects, or refers to links: structures without a place in the text."""
    if key in _ENDS:
        return _ANNOTATION
    links = all(_is_link(word, by_id) for value in given for word in value.split() or [""])
    return "uima.cas.FSArray" if links else _VALUES[0]


def _is_link(word: str, by_id: dict[str | None, Any]) -> bool:
    return word in by_id and "begin" not in by_id[word].attrib


def _type_name(tag: str) -> str:
    """`{http:///webanno/custom.ecore}Code` is webanno.custom.Code."""
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    return ".".join([*_parts(namespace), name])


def _parts(namespace: str) -> Iterator[str]:
    path = namespace.partition(":///")[2].removesuffix(".ecore")
    return iter(part for part in path.split("/") if part)
