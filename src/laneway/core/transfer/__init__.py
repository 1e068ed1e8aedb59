"""Moving a store's whole content to another one: what is moved, in which form, and how both sides are compared.

`pieces` is the form, the same for every store; `move_state` is how a store stands in a move; `digests` compares.
"""
