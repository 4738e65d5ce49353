package problems

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

// fruits contains the rewards of the leaves of the trees of depth 5 and 6, left to right: protein, carbohydrates, fats,
// vitamins, minerals, water. They are the published vectors of Yang, Sun, Narasimhan 2019, "A Generalized Algorithm for
// Multi-Objective Reinforcement Learning and Policy Adaptation"; all lie on a sphere of radius 10, and none dominates another.
//
//go:embed fruits.csv
var fruits string

// leavesOf returns the rewards of the leaves of a tree of depth 5 or 6.
func leavesOf(depth int) [][]float64 {
	rows, err := csv.NewReader(strings.NewReader(fruits)).ReadAll()
	if err != nil {
		panic(err)
	}
	first, n := map[int]int{5: 0, 6: 32}[depth], 1<<depth
	leaves := make([][]float64, n)
	for i, row := range rows[first : first+n] {
		for _, cell := range row {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				panic(err)
			}
			leaves[i] = append(leaves[i], v)
		}
	}
	return leaves
}

// fruitTree returns the full binary tree of Yang, Sun, Narasimhan (2019) with 2^depth leaves, depth 5 or 6 (else it
// panics). Action 0 moves to the left child, 1 to the right, and only the leaf yields a reward, six nutrients simultaneously; all leaves
// are on the front. The state is one-hot over the 2^depth − 1 inner nodes, level by level, and all zeros at a leaf,
// where the episode is over. The problem is deterministic. Limit depth (no episode is cut); reference (−1, …, −1).
func fruitTree(depth int) Problem {
	if depth != 5 && depth != 6 {
		panic(fmt.Sprintf("problems: fruit-tree: no fruits for depth %d, want 5 or 6", depth))
	}
	leaves := leavesOf(depth)
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
