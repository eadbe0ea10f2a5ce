"""One socket: what comes in, what goes out, files past the transport, and a socket that another process takes over."""
