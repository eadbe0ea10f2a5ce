"""Reads that would wait for the disk, brought into memory by a process of its own."""
