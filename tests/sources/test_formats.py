"""What the rest of the program relies on in the attributes of the formats."""

from __future__ import annotations

import pytest

from epochaudit.sources.formats import BY_KIND, EMPTY, FORMATS, Format, FormatError, Identity, formats
from epochaudit.sources.node_hints import NO_HINTS

PROPERTIES = b"broker.id=4\nlisteners=PLAINTEXT://a:9092\n"


def test_each_kind_has_one_format() -> None:
    assert [BY_KIND[known.kind] for known in FORMATS] == [*FORMATS]
    assert len({known.kind for known in formats()}) == len(formats())


def test_a_kind_that_no_installed_format_has_is_named() -> None:
    with pytest.raises(FormatError, match=r"no installed format has the kind 'deletion-log'; install the package"):
        _ = BY_KIND["deletion-log"]


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.kind)
def test_attributes_agree(known: Format) -> None:
    assert (known.collected_as is not None) == known.is_read
    assert known.is_read or not known.sufficient
    assert not known.deduplicated or known.identity is not Identity.PATH
    assert (known.source is not None) == (known.is_read and known.kind != EMPTY)
    assert known.has_node or known.node_hints(PROPERTIES) == NO_HINTS
