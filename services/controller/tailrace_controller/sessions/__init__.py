"""Sessions of brokers and services: when each was heard last, and what is done about silent ones."""
