-- needs: state/move_part
-- Return the store's part in a move: {phase, move, place, mark, clearing}.
return pack(move_part.standing())
