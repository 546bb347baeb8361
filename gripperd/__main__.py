"""python -m gripperd"""

import sys

from gripperd.cli import main

sys.exit(main())
