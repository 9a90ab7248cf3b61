"""Explore a collection without a query: outliers, samples, dates and clusters over time."""
