package problems

// gatheringMap: H is home, 1 gold, 2 the gem, E an enemy. Barrett, Narayanan 2008, "Learning all optimal policies
// with multiple criteria", Figure 3, in the orientation of MO-Gymnasium.
var gatheringMap = [5]string{
	"..1E.",
	"..E.2",
	".....",
	".....",
	"..H..",
}

// deathProbability is the probability of being killed per action that ends on an enemy's cell.
const deathProbability = 0.1

// resourceGathering returns the problem of Barrett and Narayanan (2008) on 5 × 5 cells: leave home, fetch gold or a
// gem or both, and return. Actions are Up, Down, Left, Right; a move into the border stays, which counts as entering
// the cell again (at home it ends the episode). Objectives: −1 when killed, +1 for gold brought home, +1 for the gem.
// The state is one-hot over (has gold, has gem) × cell: index (gold + 2·gem)·25 + row·5 + column. Limit 100;
// reference (−1, −1, −1).
func resourceGathering() Problem {
	const size, cells = len(gatheringMap), len(gatheringMap) * len(gatheringMap)
	t := &table{
		name:       "resource-gathering",
		objectives: []string{"death", "gold", "gem"},
		states:     4 * cells, actions: len(moves), limit: 100,
		reference: []float64{-1, -1, -1},
	}
	t.outcomes = make([][]branch, t.states*t.actions)
	for s := range t.states {
		carried, row, column := s/cells, s%cells/size, s%size
		for a, move := range moves {
			r, c := row+move[0], column+move[1]
			if r < 0 || r >= size || c < 0 || c >= size {
				r, c = row, column
			}
			t.outcomes[s*t.actions+a] = gather(carried, r*size+c, gatheringMap[r][c])
		}
		if gatheringMap[row][column] == 'H' {
			if carried == 0 {
				t.start = s
			} else { // terminal state
				clear(t.outcomes[s*t.actions : (s+1)*t.actions])
			}
		}
	}
	return t
}

// gather returns the outcomes of entering a cell while carrying 1 (gold), 2 (gem) or 3 (both).
func gather(carried, cell int, what byte) []branch {
	const cells = len(gatheringMap) * len(gatheringMap)
	nothing := []float64{0, 0, 0}
	switch what {
	case '1':
		carried |= 1
	case '2':
		carried |= 2
	case 'E':
		next := carried*cells + cell
		return []branch{{deathProbability, next, []float64{-1, 0, 0}, true}, {1 - deathProbability, next, nothing, false}}
	case 'H':
		return []branch{{1, carried*cells + cell, []float64{0, float64(carried & 1), float64(carried >> 1)}, true}}
	}
	return []branch{{1, carried*cells + cell, nothing, false}}
}
