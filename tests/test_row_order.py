"""A report does not depend on the order in which rows are read: of files and ranges, on more cores, in a warehouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import epochaudit
from epochaudit.sources.scan import datasource
from tests.side_by_side import as_json, named, reports_side_by_side

CAPTURE = "kraft-unclean-truncation-4.1"
SEED = 1


@pytest.mark.thorough
def test_rows_in_any_order_give_the_same_report(
    spark: SparkSession, capture: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = [named(CAPTURE, capture(CAPTURE))]
    [as_read] = reports_side_by_side(spark, captures).values()
    staged = datasource.staged

    def shuffled(session: SparkSession, paths: Sequence[str], directory: TemporaryDirectory[str]) -> DataFrame:
        rows = pa.concat_tables([pq.read_table(path) for path in paths])
        order = np.random.default_rng(SEED).permutation(rows.num_rows)
        path = f"{directory.name}/{uuid4().hex}.parquet"
        pq.write_table(rows.take(pa.array(order)), path)
        return staged(session, [path], directory)

    monkeypatch.setattr(datasource, "staged", shuffled)
    [in_other_order] = reports_side_by_side(spark, captures).values()
    assert as_json(in_other_order) == as_json(as_read)


def test_a_row_is_chosen_by_a_total_order() -> None:
    """Of rows of equal order Spark takes the one that it reads last: `replay/state/places.py` names orders without such rows."""
    package = Path(epochaudit.__file__).parent
    chooses = re.compile(r"F\.(max_by|min_by|any_value|first_value|last_value)\(")
    found = {
        str(path.relative_to(package)) for path in package.rglob("*.py") if chooses.search(path.read_text("utf-8"))
    }
    assert found == {"replay/state/places.py"}
