"""Builds the documentation site with MkDocs: the generated pages, the executed gallery, formulas."""
