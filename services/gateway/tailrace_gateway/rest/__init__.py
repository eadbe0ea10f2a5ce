"""The REST admin API and the console. Import it late: FastAPI costs more than the rest of the gateway's start."""
