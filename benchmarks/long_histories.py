"""How an audit grows with the length of a cluster's history: restarts, elections, ISR changes, epochs.

    python -m benchmarks.long_histories [--kind KRaft ...] [--steps 100 400 1600]

Simulated histories of each kind (`prove/`) of so many steps, audited one after the other in one session. A frame whose cost grows with the
square of a history's length stands out: the size of the logs grows with the steps. Of the frames, those that took longest.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.process_tree import ProcessTree
from epochaudit.pipeline import audit
from epochaudit.sources.discovery.discovery import discover
from epochaudit.spark.run_metrics import measured
from epochaudit.spark.session import session
from prove.histories import SIMULATORS, history_of
from prove.rendering.files import write

SEED: Final = 12_000_001
MEGABYTE: Final = 1e6
SHOWN: Final = 3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kind", nargs="+", choices=[*SIMULATORS], default=[*SIMULATORS])
    arguments.add_argument("--steps", type=int, nargs="+", default=[100, 400, 1600])
    given = arguments.parse_args()
    with ProcessTree() as tree, tempfile.TemporaryDirectory() as folder:
        spark = session("local[2]")
        print(f"{'kind':30} {'steps':>6} {'MB':>6} {'CPU s':>7}  frames that took longest, in seconds", flush=True)
        for kind in given.kind:
            for steps in given.steps:
                capture = Path(folder) / f"{kind}-{steps}"
                write(history_of(SEED, steps, kind=kind, faulty=False), capture)
                found = discover(str(capture))
                before = tree.cpu_seconds()
                with measured() as metrics:
                    audited = audit(spark, found)
                took = tree.cpu_seconds() - before
                audited.release()
                costs = sorted(((cost.computing_seconds, name) for name, cost in metrics.frames.items()), reverse=True)
                longest = ", ".join(f"{name} {seconds:.1f}" for seconds, name in costs[:SHOWN])
                size = sum(file.size for file in found.files) / MEGABYTE
                print(f"{kind:30} {steps:6} {size:6.2f} {took:7.1f}  {longest}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
