"""`python -m tailrace_spark`; also the file that spark-submit is given (docs/spark.md)."""

from tailrace_spark.cli import main

if __name__ == "__main__":
    main()
