"""`PYTHONPATH=tests python -m bench`: see run.py."""

import sys

from bench.run import main

main(sys.argv[1:])
