-- needs: admin/moving
-- Return how the store stands in a move: {phase, move, place, mark, clearing}.
return pack(moving.standing())
