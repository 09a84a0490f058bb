"""The audits: one file each, each a frozen dataclass with `plan` and `analyse`. None of them calls a model."""
