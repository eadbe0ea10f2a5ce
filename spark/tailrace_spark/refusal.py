"""What a user gets instead of a stack trace."""


class Refusal(Exception):
    """The job cannot run as asked; the text is one sentence that says what to do."""

    status = 2  # of the process


class Failed(Refusal):
    """The job ran and failed."""

    status = 1
