"""`python -m epochaudit`."""

import sys

from epochaudit.cli import main

sys.exit(main())
