"""What one engine computes: dump.py MODEL CUT FILE"""

import sys

from cuts import CUTS
from engine import Engine

model, cut, path = sys.argv[1:]
roundings, flags = CUTS[cut]
engine = Engine(model, roundings, [], flags)
engine.store(path, engine.run())
