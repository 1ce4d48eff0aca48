"""spark-submit jobs/audit.py CAPTURE... [options]: the same as `epochaudit audit`, on the cluster that spark-submit names."""

import sys

from epochaudit.cli.app import main

if __name__ == "__main__":
    sys.exit(main(["audit", *sys.argv[1:]]))
