"""`laneway doctor`, `migrate` and `move`: commands about whole stores."""
