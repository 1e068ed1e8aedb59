"""Programs that make files of this checkout; they are not shipped."""
