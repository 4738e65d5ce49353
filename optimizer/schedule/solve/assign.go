package solve

import "math"

// Assign solves the rectangular assignment problem: every row is assigned to a column of its own at minimum total
// cost. cost is rows × columns with rows ≤ columns; +Inf forbids an entry. It returns the column of each row, or nil
// when there are more rows than columns, when a row is ragged, or when every complete assignment uses a forbidden
// entry.
//
// The method is the shortest augmenting path of Jonker and Volgenant in the order of operations of Crouse ("On
// implementing 2D rectangular assignment algorithms", 2016): rows in ascending order, free columns in descending
// order, and a free column before an assigned one at equal distance. Ties between optima are therefore resolved as in
// scipy.optimize.linear_sum_assignment. It takes O(rows² · columns) time and O(columns) memory.
func Assign(cost [][]float64) []int {
	rows := len(cost)
	if rows == 0 {
		return []int{}
	}
	cols := len(cost[0])
	for _, r := range cost {
		if len(r) != cols {
			return nil
		}
	}
	if rows > cols {
		return nil
	}
	a := newAssignment(cost, cols)
	for r := range cost {
		if !a.add(r) {
			return nil
		}
	}
	return a.colOf
}

// assignment is the state of the algorithm: the partial assignment, the dual prices and the tree of shortest paths.
type assignment struct {
	cost         [][]float64
	rowPrice     []float64
	colPrice     []float64
	colOf, rowOf []int // −1: unassigned
	from         []int // row from which the shortest path enters a column
	distance     []float64
	left         []int // columns outside the tree
	treeRows     []int
	treeCols     []int
}

func newAssignment(cost [][]float64, cols int) *assignment {
	a := &assignment{
		cost: cost, rowPrice: make([]float64, len(cost)), colPrice: make([]float64, cols),
		colOf: make([]int, len(cost)), rowOf: make([]int, cols), from: make([]int, cols),
		distance: make([]float64, cols), left: make([]int, cols),
	}
	for i := range a.colOf {
		a.colOf[i] = -1
	}
	for j := range a.rowOf {
		a.rowOf[j] = -1
	}
	return a
}

// add finds the shortest augmenting path from an unassigned row to a free column, updates the prices and augments
// along the path. It returns false when no free column is reachable.
func (a *assignment) add(row int) bool {
	sink, reach := a.path(row)
	if sink < 0 {
		return false
	}
	a.rowPrice[row] += reach
	for _, i := range a.treeRows {
		if i != row {
			a.rowPrice[i] += reach - a.distance[a.colOf[i]]
		}
	}
	for _, j := range a.treeCols {
		a.colPrice[j] -= reach - a.distance[j]
	}
	for j := sink; ; {
		i := a.from[j]
		a.rowOf[j] = i
		a.colOf[i], j = j, a.colOf[i]
		if i == row {
			return true
		}
	}
}

// path grows a shortest-path tree from a row until it contains a free column. It returns that column and its
// distance, or −1 when none is reachable.
func (a *assignment) path(row int) (sink int, reach float64) {
	cols := len(a.colPrice)
	left := a.left[:cols]
	// Descending order of columns, as in scipy.
	for k := range left {
		left[k] = cols - 1 - k
	}
	for j := range a.distance {
		a.distance[j] = math.Inf(1)
	}
	a.treeRows, a.treeCols = a.treeRows[:0], a.treeCols[:0]
	for i := row; ; {
		a.treeRows = append(a.treeRows, i)
		price, costs := a.rowPrice[i], a.cost[i]
		lowest, at := math.Inf(1), -1
		// Relax all columns outside the tree and find the nearest; ties prefer free columns.
		for k, j := range left {
			d := a.distance[j]
			if r := reach + costs[j] - price - a.colPrice[j]; r < d {
				a.from[j], a.distance[j] = i, r
				d = r
			}
			if d < lowest || d == lowest && a.rowOf[j] < 0 {
				lowest, at = d, k
			}
		}
		if at < 0 || math.IsInf(lowest, 1) {
			return -1, 0
		}
		reach = lowest
		j := left[at]
		a.treeCols = append(a.treeCols, j)
		left[at] = left[len(left)-1]
		left = left[:len(left)-1]
		if a.rowOf[j] < 0 {
			return j, reach
		}
		i = a.rowOf[j]
	}
}
