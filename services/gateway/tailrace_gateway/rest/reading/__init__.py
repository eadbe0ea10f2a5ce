"""Records over HTTP: a page of them, or a stream of events, by the reader of the library."""
