-- needs: state/move_part
-- Return how the store stands in a move: {phase, move, place, mark, clearing}.
return pack(move_part.standing())
