"""Validates JSON documents against the published schemas."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from epochaudit.events.package_data import package_data


@cache
def validator(document: str) -> Draft202012Validator:
    """The validator of `schemas/<document>.schema.json`."""
    schema = json.loads((package_data("schemas") / f"{document}.schema.json").read_text("utf-8"))
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def complaints(document: str, content: Any) -> list[str]:
    """What is wrong with a document, empty if it is valid."""
    return [f"{error.json_path}: {error.message}" for error in validator(document).iter_errors(content)]
