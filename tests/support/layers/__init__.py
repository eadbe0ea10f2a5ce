"""The runner of the test layers: what `./test` runs, in which order and beside what."""
