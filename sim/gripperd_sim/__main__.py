"""`python -m gripperd_sim`: the same program as `gripperd-sim`."""

import sys

from gripperd_sim.cli import main

sys.exit(main())
