"""What one look at each part of the cluster's state asks, and the rows that it finds."""
