package solve

// program is a linear program in the block form that all programs of this package share. A group stands for count equal jobs;
// its columns are what a job of it can do with its time. Per job of the group:
//
//	Σ_k x_k + u = 1                                           time
//	Σ_k rate_k x_k − v = base + level · t    (if levelled)    progress
//	Σ_k rate_k x_k − w = floor               (if floored)     least progress
//
// and over all jobs, with t free and everything else ≥ 0,
//
//	Σ count · use_k x_k (over columns of kind j) + c_j = capacity_j
//	Σ count · side_k x_k (over columns of link l)      = 0
//
// The objective is t (if rising) + Σ count · gain_k x_k, or, where logs is set, Σ count · log v.
type program struct {
	start    []int // columns of group g: start[g] … start[g+1]−1
	rate     []float64
	gain     []float64
	use      []float64
	kind     []int32
	link     []int32 // −1: none
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
	logs     bool // v of the levelled rows counts by its logarithm; level is then 0
	centred  bool // no objective: the analytic centre of what is feasible
	rise     bool // of water filling, which needs prices in the middle of those that are best
}

func (p *program) groups() int { return len(p.count) }

// addGroup begins a group; its columns follow by addColumn.
func (p *program) addGroup(count float64) int {
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
	return len(p.count) - 1
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
