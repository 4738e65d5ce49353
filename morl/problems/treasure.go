package problems

import "fmt"

// kind is one of the maps of deep-sea-treasure.
type kind int

const (
	// Convex has the treasures of Yang et al. (2019): at a discount below 1 each point of the front is optimal for
	// some linear preference; at 1 the point (20.3, −14) is optimal for none.
	Convex kind = iota
	// Concave has the treasures of Vamplew et al. (2011): linear preferences find only the two end points.
	Concave
)

// treasure is a cell that ends the episode, with its value on each map.
type treasure struct {
	row, column     int
	convex, concave float64
}

// treasures lists one treasure for each column 0 to 9; the cells below a treasure are rock. Values: convex as in
// Yang, Sun, Narasimhan 2019, "A Generalized Algorithm for Multi-Objective Reinforcement Learning and Policy
// Adaptation"; concave as in Vamplew et al. 2011, "Empirical evaluation methods for multiobjective reinforcement
// learning algorithms".
var treasures = []treasure{
	{1, 0, 0.7, 1},
	{2, 1, 8.2, 2},
	{3, 2, 11.5, 3},
	{4, 3, 14.0, 5},
	{4, 4, 15.1, 8},
	{4, 5, 16.1, 16},
	{7, 6, 19.6, 24},
	{7, 7, 20.3, 50},
	{9, 8, 22.4, 74},
	{10, 9, 23.7, 124},
}

const seaSize = 11

// DeepSeaTreasure returns the submarine problem of Vamplew et al. (2011) on 11 × 11 cells: it starts at the top left,
// moves Up, Down, Left, Right, stays if rock or the border blocks the move, and the episode ends at the first
// treasure. Objectives: the value of the treasure, and −1 per action. The state is one-hot over the 72 reachable
// cells (including the treasures), row by row. The problem is deterministic. Limit 100, as registered by
// MO-Gymnasium; reference (0, −50).
func DeepSeaTreasure(kind kind) Problem {
	t := &table{
		objectives: []string{"treasure", "time"},
		actions:    len(moves), limit: 100, reference: []float64{0, -50},
	}
	worth := map[[2]int]float64{}
	floor := [seaSize]int{}
	for i := range floor {
		floor[i] = seaSize - 1
	}
	for _, x := range treasures {
		floor[x.column] = x.row
		switch kind {
		case Convex:
			t.name, worth[[2]int{x.row, x.column}] = "deep-sea-treasure", x.convex
		case Concave:
			t.name, worth[[2]int{x.row, x.column}] = "deep-sea-treasure-concave", x.concave
		default:
			panic(fmt.Sprintf("problems: deep-sea-treasure: no map %d", kind))
		}
	}

	index := map[[2]int]int{}
	var cells [][2]int
	for row := range seaSize {
		for column := range seaSize {
			if row <= floor[column] {
				index[[2]int{row, column}] = len(cells)
				cells = append(cells, [2]int{row, column})
			}
		}
	}
	t.states = len(cells)
	t.outcomes = make([][]branch, t.states*t.actions)
	for s, cell := range cells {
		if worth[cell] > 0 {
			continue // terminal state
		}
		for a, move := range moves {
			next, ok := index[[2]int{cell[0] + move[0], cell[1] + move[1]}]
			if !ok {
				next = s
			}
			found := worth[cells[next]]
			t.outcomes[s*t.actions+a] = []branch{{1, next, []float64{found, -1}, found > 0}}
		}
	}
	return t
}
