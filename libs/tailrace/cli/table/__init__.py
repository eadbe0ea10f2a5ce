"""`tailrace table`: the worker that makes tables of topics."""
