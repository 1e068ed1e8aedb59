"""`laneway doctor`, `migrate` and `move`: what is done to whole stores."""
