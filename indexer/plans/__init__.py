"""How a generation is searched: index kinds, the contract they keep, and the measurement that chooses one."""
