"""What is fuzzed of people's own files: workbooks, lists, saved splits, lexicons, annotation projects and corpora."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import polars as pl

from palpate.commands.codes import read_codes
from palpate.data.annotations import uima_cas
from palpate.data.annotations.webanno import LayerSpan
from palpate.data.cohorts.ade_corpus import read_negatives, read_relations
from palpate.data.cohorts.smm4h import read_posts
from palpate.data.cohorts.splits import read_splits
from palpate.data.hospitals.records import read_labels
from palpate.data.lexicons.psytar import SHEET, read_mentions
from palpate.data.tables import TableSpec, read_cohort
from palpate.perturb.suites.lexicons import load_lexicon, slot_values
from palpate.train.coding.evidence import read_table as read_training_evidence
from palpate.workbench.evidence.imports import ReadHow, read_file
from reliability.seeds import Reader


def _workbook(sheet: str, **columns: list[str]) -> bytes:
    """An .xlsx file as Excel writes it, with texts in the cells themselves."""
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    cells = "".join(
        f'<row r="{r}">'
        + "".join(f'<c r="{chr(65 + c)}{r}" t="inlineStr"><is><t>{text}</t></is></c>' for c, text in enumerate(row))
        + "</row>"
        for r, row in enumerate(rows, start=1)
    )
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    packages, documents = (
        "http://schemas.openxmlformats.org/package/2006",
        "http://schemas.openxmlformats.org/officeDocument/2006",
    )
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packages}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{packages}/relationships"><Relationship Id="rId1" '
        f'Type="{documents}/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{documents}/relationships"><sheets>'
        f'<sheet name="{sheet}" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{packages}/relationships"><Relationship Id="rId1" '
        f'Type="{documents}/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
    }
    return _zipped({name: (head + part).encode() for name, part in parts.items()}, zipfile.ZIP_STORED)


def _zipped(parts: dict[str, bytes], how: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as packed:
        for name, content in parts.items():
            packed.writestr(zipfile.ZipInfo(name), content, how)
    return out.getvalue()


_CAS = uima_cas.write_json("He has fever.", [LayerSpan(7, 12, "webanno.custom.Code", {"value": "R50"})]).encode()
_XMI = b"""<?xml version="1.0" encoding="UTF-8"?>
<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" xmlns:c="http:///webanno/custom.ecore"
 xmi:version="2.0"><cas:NULL xmi:id="0"/><c:Code xmi:id="2" sofa="1" begin="7" end="12" value="R50"/>
<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="He has fever."/>
<cas:View sofa="1" members="2"/></xmi:XMI>
"""
_PROJECT = _zipped({f"annotation/note.txt/{who}.json": _CAS for who in ("anna",)}, zipfile.ZIP_STORED)
_LEXICON = (
    b"lexicon: pains\nabout: Pains\narticle: auto\nvalues:\n  - headache\n  - {value: ache, article: an, kind: dull}\n"
)
_POSTS = b"tweet_id\tuser_id\tclass\ttweet\n1\t7\t1\tit hurt\n2\t8\t0\tfine\n"
_RELATIONS = b"1|aspirin gave a rash|rash|15|19|aspirin|0|7\n2|a rash after ibuprofen|rash|2|6|ibuprofen|13|22\n"


def _cohort(path: Path) -> object:
    return read_cohort(TableSpec(file=path, text="text", labels=("sick",)), name="c", folder=path.parent)


def _sent(path: Path) -> object:
    """A file of charts or a project, as somebody sends it to the workbench."""
    return read_file(path.name, path.read_bytes(), ReadHow(), by_model=False)


def _posted(path: Path) -> pl.DataFrame:
    return read_posts({"smm4h-2021": [path]})


READERS = (
    Reader(
        "xlsx", ".xlsx", _cohort, (_workbook("Notes", case_id=["1", "2"], text=["fever", "none"], sick=["1", "0"]),)
    ),
    Reader("psytar", ".xlsx", read_mentions, (_workbook(SHEET, drug_id=["a"], ADR1=["headache"], ADR2=["dry mouth"]),)),
    Reader("splits", ".csv", read_splits, (b"patient_id,split\n1,train\n2,test\n", b"subject_id,split\n3,val\n")),
    Reader("labels", ".csv", read_labels, (b"case_id,ill,old\n1,0,1\n2,1,0\n",)),
    Reader("codes", ".txt", read_codes, (b"I10\nE11.9\n",), share=80),
    Reader("codes.csv", ".csv", read_codes, (b"code,n\n4019,2\n25000,1\n",)),
    Reader("relations", ".rel", lambda path: list(read_relations(path)), (_RELATIONS,), share=80),
    Reader("negatives", ".txt", lambda path: list(read_negatives(path)), (b"7 NEG No rash.\n8 NEG Well.\n",), share=80),
    Reader("posts", ".tsv", _posted, (_POSTS,), share=80),
    Reader(
        "lexicon",
        ".yaml",
        lambda path: load_lexicon(path, "pains"),
        (_LEXICON, b"lexicon: p\nvalues: [a, b]\n"),
        share=80,
    ),
    Reader("values", ".csv", slot_values, (b"value,kind,weight\nheadache,dull,1.5\nache,,2\n",), share=80),
    Reader("values.txt", ".txt", slot_values, (b"# pains\nheadache\nache\n",), share=80),
    Reader("training evidence", ".csv", read_training_evidence, (b"case_id,label,start,end\n1,I10,0,4\n",)),
    Reader("xmi", ".xmi", lambda path: uima_cas.read_xmi(path.read_bytes(), None, path), (_XMI,), share=1),
    Reader("sent project", ".zip", _sent, (_PROJECT,)),
    Reader("sent charts", ".json", _sent, (_CAS,)),
)
