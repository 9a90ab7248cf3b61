"""The page Judge: judging passages by keyboard, without knowing which ranking found them."""
