"""Programs that run in environments of other libraries, each with what its library needs."""
