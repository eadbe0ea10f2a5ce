"""The page of the REST API: Swagger UI over openapi.json."""
