"""conf/spark-defaults.conf: every setting is one that Spark reads, and what a session started here has, too."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from epochaudit.spark.session import DELTA, DELTA_EXCLUDES, delta_package
from tests.clusters.packed import ROOT

pytestmark = pytest.mark.cluster


def settings() -> dict[str, str]:
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("key", settings())
def test_spark_knows_the_setting_and_takes_the_value(spark: SparkSession, key: str) -> None:
    known = spark._jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(key)  # type: ignore[union-attr]
    assert known is not None, f"no Spark setting is called {key}"
    known.valueConverter().apply(settings()[key])


def test_delta_is_the_one_that_the_command_line_takes() -> None:
    delta = {key: DELTA[key] for key in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")}
    delta |= {"spark.jars.packages": delta_package(), "spark.jars.excludes": ",".join(DELTA_EXCLUDES)}
    assert delta.items() <= settings().items()
