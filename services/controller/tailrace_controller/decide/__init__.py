"""Decisions: from the image and a request to the records to append and the reply. Pure."""
