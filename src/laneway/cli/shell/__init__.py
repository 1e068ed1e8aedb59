"""What all commands share: groups, options, errors, views of records, formats."""
