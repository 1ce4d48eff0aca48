"""`python -m epochaudit`."""

import sys

from epochaudit.cli.app import main

sys.exit(main())
