"""Product suggestions: a nightly batch over purchases to similar products, in a compacted topic, looked up by key."""
