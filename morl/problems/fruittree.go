package problems

import "fmt"

// fruitTree returns the full binary tree of Yang, Sun, Narasimhan (2019) with 2^depth leaves, depth 5 or 6 (else it
// panics). Action 0 moves to the left child, 1 to the right, and only the leaf yields a reward, six nutrients simultaneously; all leaves
// are on the front. The state is one-hot over the 2^depth − 1 inner nodes, level by level, and all zeros at a leaf,
// where the episode is over. The problem is deterministic. Limit depth (no episode is cut); reference (−1, …, −1).
func fruitTree(depth int) Problem {
	leaves, ok := fruits[depth]
	if !ok {
		panic(fmt.Sprintf("problems: fruit-tree: no fruits for depth %d, want 5 or 6", depth))
	}
	inner := len(leaves) - 1
	t := &table{
		name:       fmt.Sprintf("fruit-tree-%d", depth),
		objectives: []string{"protein", "carbohydrates", "fats", "vitamins", "minerals", "water"},
		states:     inner, actions: 2, limit: depth,
		reference: []float64{-1, -1, -1, -1, -1, -1},
	}
	nothing := make([]float64, len(t.objectives))
	for node := range inner {
		for a := range t.actions {
			child := 2*node + 1 + a
			b := branch{probability: 1, next: child, reward: nothing}
			if child >= inner {
				b = branch{probability: 1, next: over, reward: leaves[child-inner], done: true}
			}
			t.outcomes = append(t.outcomes, []branch{b})
		}
	}
	return t
}
