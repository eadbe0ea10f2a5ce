"""The fields of a record's value, by the names of columns: of JSON, and of Avro."""
