"""`PYTHONPATH=tests python -m bench.spark`: see run.py."""

import sys

from bench.spark.run import main

main(sys.argv[1:])
