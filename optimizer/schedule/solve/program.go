package solve

// program is a linear program in the block form shared by all programs of this package. A group represents count
// identical jobs; its columns are the ways in which such a job can spend its time. The rows of each job of a group
// are:
//
//	Σ_k x_k + u = 1                                           time
//	Σ_k rate_k x_k − v = base + level · t    (if levelled)    progress
//	Σ_k rate_k x_k − w = floor               (if floored)     minimum progress
//
// The rows that couple the groups, with t free and all other variables ≥ 0, are:
//
//	Σ count · use_k x_k (over columns of kind j) + c_j = capacity_j
//	Σ count · side_k x_k (over columns of link l)      = 0
//
// The objective to maximize is t (if rising) + Σ count · gain_k x_k, or, where logs is set, Σ count · log v.
type program struct {
	start    []int // columns of group g: start[g] … start[g+1]−1
	rate     []float64
	gain     []float64
	use      []float64
	kind     []int32
	link     []int32 // −1: the column is in no link
	side     []float64
	count    []float64
	base     []float64
	level    []float64
	levelled []bool
	floor    []float64
	floored  []bool
	capacity []float64
	links    int
	rising   bool
	logs     bool // the objective is the sum of log v over the levelled rows; level is then 0
	centred  bool // no objective: the solution is the analytic centre of the feasible set
	rise     bool // program of water filling, which requires duals near the centre of the dual optimal face
}

func (p *program) groups() int { return len(p.count) }

// addGroup appends a group without columns; addColumn adds its columns.
func (p *program) addGroup(count float64) {
	if len(p.start) == 0 {
		p.start = append(p.start, 0)
	}
	p.start = append(p.start, len(p.rate))
	p.count = append(p.count, count)
	p.base = append(p.base, 0)
	p.level = append(p.level, 0)
	p.levelled = append(p.levelled, false)
	p.floor = append(p.floor, 0)
	p.floored = append(p.floored, false)
}

func (p *program) addColumn(kind int, rate, use, gain float64) {
	p.rate = append(p.rate, rate)
	p.use = append(p.use, use)
	p.gain = append(p.gain, gain)
	p.kind = append(p.kind, int32(kind))
	p.link = append(p.link, -1)
	p.side = append(p.side, 0)
	p.start[len(p.start)-1] = len(p.rate)
}

func (p *program) setLevel(g int, level float64) { p.level[g], p.levelled[g] = level, true }
func (p *program) setFloor(g int, floor float64) { p.floor[g], p.floored[g] = floor, true }
