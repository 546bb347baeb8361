"""python -m gripperd.ctl"""

import sys

from gripperd.ctl import main

sys.exit(main())
