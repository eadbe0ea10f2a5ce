"""What Produce needs beside its handler: a look into the batches where a topic asks for it, and producer ids."""
