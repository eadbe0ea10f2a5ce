from tailrace.frames.topic import read as read

__version__: str
