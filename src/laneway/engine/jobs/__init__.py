"""Jobs: how they are declared, checked, stored and fired."""
