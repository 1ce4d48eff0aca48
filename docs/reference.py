"""MkDocs hook: makes the pages below reference/ from the code, and links of paths such as `docs/verdicts.md`."""

from __future__ import annotations

import inspect
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click
import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from epochaudit.cli.app import DOCUMENTS, commands
from epochaudit.events.package_data import package_data
from epochaudit.events.schema import contract
from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue, family_title
from epochaudit.rules.rule import Rule
from epochaudit.settings import Settings

TABLES: Final = ("events", "findings", "verdicts", "runs", "quarantine", "splits", "horizon")
PAGE: Final = re.compile(r"`docs/([\w./-]+\.md)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, content in _pages():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Link paths of pages, which the repository shows as code."""
    here = posixpath.dirname(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        target = files.get_file_from_path(found[1])
        if target is None:
            return found[0]
        heading = re.search(r"^# (.+)$", target.content_string, re.M)
        return f"[{heading[1] if heading else found[1]}]({posixpath.relpath(found[1], here or '.')})"

    return PAGE.sub(link, markdown)


def _pages() -> Iterator[tuple[str, str]]:
    rules = catalogue()
    yield "reference/rules.md", _rules(rules)
    for rule in rules:
        yield f"reference/rules/{rule.id}.md", _rule(rule)
    yield "reference/command-line.md", _command_line()
    yield "reference/settings.md", _settings()
    yield "reference/json.md", _json()
    yield "reference/tables.md", _tables()
    yield "reference/frames.md", _frames(rules)


def _rules(rules: tuple[Rule, ...]) -> str:
    families = {rule.family: family_title(rule.family) for rule in rules}
    sections = (
        f"## {family}: {title}\n\n"
        + _table(
            ("rule", "severity", "KIP", "since", "title"),
            (
                (f"[{rule.id}](rules/{rule.id}.md)", rule.severity, rule.kip, rule.since, rule.title)
                for rule in rules
                if rule.family == family
            ),
        )
        for family, title in families.items()
    )
    return "# Rules\n\n`epochaudit explain RULE` shows the same pages.\n\n" + "\n".join(sections)


def _rule(rule: Rule) -> str:
    facts = (
        f"`{rule.name}`, {rule.kip}, severity {rule.severity}, for Kafka {rule.since} and later. Frame: `{rule.frame}`."
    )
    text = rule.page.removeprefix(rule.title).lstrip(".\n")
    return f"# {rule.id}: {rule.title}\n\n{facts}\n\n{text}\n"


def _command_line() -> str:
    root = click.Context(commands, info_name="epochaudit")
    text = ["# Command line", _help(root)]
    for name, command in commands.commands.items():
        text += [f"## epochaudit {name}", _help(click.Context(command, parent=root, info_name=name))]
    return "\n\n".join(text)


def _help(context: click.Context) -> str:
    context.max_content_width = context.terminal_width = 100
    return f"```text\n{context.get_help()}\n```"


def _settings() -> str:
    fields = msgspec.structs.fields(Settings)
    rows = ((f"`{one.encode_name}`", f"`{msgspec.json.encode(_default(one)).decode()}`") for one in fields)
    example = (package_data("conf") / "epochaudit.toml").read_text("utf-8")
    return (
        "# Settings\n\n`epochaudit audit` reads `./epochaudit.toml`, or the file that `--config` names. Keys are the names of its"
        " options; the command line goes before the file, lists replace lists, and `conf` is merged key by key.\n\n"
        + _table(("key", "default"), rows)
        + f"\n```toml\n{example}```\n"
    )


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def _json() -> str:
    text = [
        "# JSON documents",
        "`epochaudit schema NAME` prints the schemas. `docs/formats.md` states what may change.",
    ]
    for name in DOCUMENTS:
        schema = json.loads((package_data("schemas") / f"{name}.schema.json").read_text("utf-8"))
        text += [f"## {name}", schema["description"], *_objects(schema, name)]
    return "\n\n".join(text)


def _objects(schema: Mapping[str, Any], name: str) -> Iterator[str]:
    own = schema if "properties" in schema else schema["items"]
    inline = {field: of for field, of in own["properties"].items() if "properties" in of}
    for title, one in ((name, own), *inline.items(), *schema.get("$defs", {}).items()):
        if "properties" in one:
            rows = ((f"`{field}`", _type(of), of.get("description", "")) for field, of in one["properties"].items())
            if one is not own:
                yield f"### {name}: {title}"
                yield one["description"]
            yield _table(("field", "type", "meaning"), rows)


def _type(of: Mapping[str, Any]) -> str:
    if "$ref" in of:
        return of["$ref"].rpartition("/")[2]
    if "anyOf" in of:
        return " or ".join(_type(one) for one in of["anyOf"])
    if "enum" in of or "const" in of:
        return ", ".join(f"`{value}`" for value in of.get("enum", [of.get("const")]))
    if of.get("type") == "array" and isinstance(of.get("items"), Mapping):
        return f"list of {_type(of['items'])}"
    if isinstance(of.get("additionalProperties"), Mapping):
        return f"map to {_type(of['additionalProperties'])}"
    kinds = of.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _tables() -> str:
    text = [
        "# Tables",
        "The tables of a warehouse (Delta). `events`, `quarantine` and `splits` are attributes of `epochaudit.audit(...)`, too.",
    ]
    for name in TABLES:
        table = contract(name)
        rows = ((f"`{c.name}`", f"`{c.type}`", c.unit or "", c.doc) for c in table.columns)
        text += [f"## {name}", table.grain, _table(("column", "type", "unit", "meaning"), rows)]
    return "\n\n".join(text)


def _frames(rules: tuple[Rule, ...]) -> str:
    text = [
        "# Frames",
        "A frame has one row per subject, with the state at that point. `docs/architecture.md` describes their order.",
    ]
    for name, frame in FRAMES.items():
        judged_by = [f"[{rule.id}](rules/{rule.id}.md)" for rule in rules if rule.frame == name]
        text += [f"## {name}", f"```text\n{inspect.getdoc(frame.of)}\n```", f"Rules: {', '.join(judged_by) or 'none'}."]
    return "\n\n".join(text)


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]] | Any) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """One line, in which `|` and `<` are text."""
    return (
        " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")
    )
