"""The normative JSON Schemas (draft 2020-12) of the documents, as files of the package."""
