package problems_test

import (
	"fmt"

	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

func Example() {
	p := problems.DeepSeaTreasure(problems.Convex)
	front, exact := p.KnownFront(0.99)
	fmt.Printf("%.3f %v\n", pareto.Hypervolume(front, p.Reference()), exact)
	fmt.Println(p.Return(func([]float32, []bool) int { return problems.Down }, 0.99))
	// Output:
	// 854.850 true
	// [0.7 -1]
}
