"""``python -m tests.cuda.first_hour --out FOLDER``; see ``stages``."""

import sys

from tests.cuda.first_hour.stages import main

sys.exit(main())
