"""A broker's part in transactions: what it asks their coordinators, and the markers that end them."""
