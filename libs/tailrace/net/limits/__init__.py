"""What a connection may take of everybody's room: time, memory, the size of an answer."""
