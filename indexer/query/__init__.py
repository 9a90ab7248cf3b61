"""From a query to its hits: candidates by meaning and by words, fusion, rows, and why each was found."""
