package problems_test

import (
	"fmt"

	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

func Example() {
	p := problems.DeepSeaTreasure(problems.Convex)
	points := [][]float64{{0.7, -1}, {0.99 * 0.99 * 8.2, -1 - 0.99 - 0.99*0.99}} // the two nearest treasures
	fmt.Printf("%.3f\n", pareto.Hypervolume(points, p.Reference()))
	fmt.Println(p.Return(func([]float32, []bool) int { return problems.Down }, 0.99))
	// Output:
	// 379.350
	// [0.7 -1]
}
