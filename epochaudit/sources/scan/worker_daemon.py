"""The process from which Spark forks its Python workers (`spark.python.daemon.module`), with what decoders need.

A worker decodes a part of the logs, and ends, so that its memory is free while rules are judged. Each would otherwise import the
decoders and load compiled code for a second. Spark's own daemon imports nothing, as a thread that holds a lock may not be forked: the
threads that Arrow and numpy start are idle here, and both libraries prepare them for a fork.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from epochaudit.sources.request_log import compiled
from epochaudit.sources.scan import datasource  # noqa: F401


def main() -> None:
    """Load what decoders need, and fork workers until Spark ends."""
    compiled.load()
    for path, importer in [*sys.path_importer_cache.items()]:
        if isinstance(importer, zipimporter):  # Spark's own archives: each worker would read their directories again
            del sys.path_importer_cache[path]
    gc.freeze()  # else the first collection in a worker would copy all of it
    manager()


if __name__ == "__main__":
    main()
