"""Jobs: how they are declared, checked, kept and fired."""
