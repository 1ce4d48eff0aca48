"""spark-submit jobs/maintain.py --warehouse DIR [options]: the same as `epochaudit maintain`, on spark-submit's cluster."""

import sys

from epochaudit.cli.app import main

if __name__ == "__main__":
    sys.exit(main(["maintain", *sys.argv[1:]]))
