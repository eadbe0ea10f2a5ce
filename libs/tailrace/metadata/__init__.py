"""The metadata log's records, and the image of the cluster that they add up to. Pure."""
