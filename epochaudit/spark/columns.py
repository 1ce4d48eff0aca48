"""Expressions of columns."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """body(value), for which Spark computes the value once.

    An expression in the body of a lambda function is computed for each element of the array that the function is applied to, even if
    it does not depend on the element, and once for each time that it stands there.
    """
    return F.get(F.transform(F.array(value), lambda computed: body(computed)), F.lit(0))
