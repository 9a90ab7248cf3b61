"""Past one machine: work on a collection spread over the machines of a Ray cluster."""
