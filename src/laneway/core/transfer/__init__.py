"""The transfer of a store's whole content to another one: its form, its states, and how both sides are compared.

`pieces` is the form, the same for every store. `move_state` is a store's part in a move. `digests` compares two stores.
"""
