"""The documentation site: built strictly, complete, and without requests to other hosts."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from epochaudit.cli.app import DOCUMENTS, commands
from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.settings import Settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FETCHED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
STYLED = re.compile(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A warning, such as a link to nothing, fails the build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        folder = tmp_path_factory.mktemp("site")
        logging.getLogger("mkdocs").setLevel(logging.WARNING)
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def text_of(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text("utf-8")


def test_each_page_of_docs_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [page for page in pages if not (site / page).is_file()] == []
    assert not list(site.rglob("*.py"))


def test_the_reference_has_all_rules_frames_commands_settings_and_documents(site: Path) -> None:
    rules = text_of(site, "reference/rules")
    for rule in catalogue():
        assert f'href="rules/{rule.id}.html"' in rules
        assert "What to do" in text_of(site, f"reference/rules/{rule.id}")
    frames, lines = text_of(site, "reference/frames"), text_of(site, "reference/command-line")
    assert [name for name in FRAMES if f'id="{name}"' not in frames] == []
    assert [name for name in commands.commands if f'id="epochaudit-{name}"' not in lines] == []
    settings = text_of(site, "reference/settings")
    assert [name for name in Settings.__struct_encode_fields__ if f"<code>{name}</code>" not in settings] == []
    documents = text_of(site, "reference/json")
    assert [name for name in DOCUMENTS if f'id="{name}"' not in documents] == []
    assert "<code>first_run_id</code>" in text_of(site, "reference/tables")


def test_a_path_of_a_page_is_a_link(site: Path) -> None:
    assert '<a href="../captures.html">What to collect, and how it is read</a>' in text_of(site, "how-to/find-logs")


def test_nothing_is_fetched_from_another_host(site: Path) -> None:
    pages, styles = [*site.rglob("*.html")], [*site.rglob("*.css")]
    assert len(pages) > len(catalogue())
    assert styles
    assert {found for page in pages for found in FETCHED.findall(page.read_text("utf-8"))} == set()
    assert {found for style in styles for found in STYLED.findall(style.read_text("utf-8"))} == set()
