package solve

// solution converts a point of the program into shares of the jobs, alone and in pairs. The value is that of the
// program.
func (l *layout) solution(p *point) Solution {
	s := l.sharing
	sol := Solution{X: zeros(len(s.Rate), len(s.Devices)), Value: p.value, Gap: p.gap()}
	for i, g := range l.groupOf {
		if g < 0 {
			continue
		}
		for c, j := range l.kinds {
			sol.X[i][j] = p.x[l.start[g]+c]
		}
	}
	if l.pairing == nil {
		return sol
	}
	sol.Pairs = l.divide(p.x).listed(s)
	sol.fitInto(l.sharing)
	return sol
}

// revalue replaces the value by that of the shares, which the division into pairs rounded, and adds the loss to the
// gap.
func (l *layout) revalue(sol *Solution, value float64) {
	if sol.Value > 0 && value < sol.Value {
		sol.Gap += (sol.Value - value) / sol.Value
	}
	sol.Value = value
}

// done returns the throughput of every job.
func (sol *Solution) done(s *Sharing) []float64 {
	out := make([]float64, len(s.Rate))
	for i, row := range sol.X {
		for j, x := range row {
			out[i] += x * s.Rate[i][j]
		}
	}
	for q, row := range sol.Pairs {
		p := &s.Pairs[q]
		for j, x := range row {
			out[p.A] += x * p.RateA[j]
			out[p.B] += x * p.RateB[j]
		}
	}
	return out
}

// pairTimes accumulates the co-located times of pairs of jobs by device type. The smaller index comes first.
type pairTimes struct {
	kinds int
	at    map[[2]int]int // index into times
	times [][]float64
}

func (t *pairTimes) add(a, b, kind int, x float64) {
	if x <= 0 {
		return
	}
	key := [2]int{min(a, b), max(a, b)}
	at, known := t.at[key]
	if !known {
		at = len(t.times)
		t.at[key] = at
		t.times = append(t.times, make([]float64, t.kinds))
	}
	t.times[at][kind] += x
}

// listed returns the times in the order of Sharing.Pairs. Of two entries for the same jobs, the first receives the
// time.
func (t *pairTimes) listed(s *Sharing) [][]float64 {
	out, taken := zeros(len(s.Pairs), len(s.Devices)), make([]bool, len(t.times))
	for q := range s.Pairs {
		key := [2]int{min(s.Pairs[q].A, s.Pairs[q].B), max(s.Pairs[q].A, s.Pairs[q].B)}
		if at, known := t.at[key]; known && !taken[at] {
			copy(out[q], t.times[at])
			taken[at] = true
		}
	}
	return out
}

// spending is a job and the time it spends on an option.
type spending struct {
	job  int
	time float64
}

// divide splits the co-located time of classes into pairs of jobs. An option yields at most as many pairs as the two
// classes have jobs.
func (l *layout) divide(x []float64) *pairTimes {
	t := &pairTimes{kinds: len(l.sharing.Devices), at: map[[2]int]int{}}
	next := l.optionColumns()
	var a, b []spending
	for _, o := range l.active {
		option := &l.pairing.options[o]
		a, b = l.spent(a[:0], x, next, option.a), b[:0]
		kind := l.kinds[option.kind]
		if option.a == option.b {
			acrossCircle(a, func(i, k int, v float64) { t.add(i, k, kind, v) })
		} else {
			b = l.spent(b, x, next, option.b)
			sideBySide(a, b, func(i, k int, v float64) { t.add(i, k, kind, v) })
		}
		l.advance(next, option)
	}
	return t
}

// spent appends to list the time that each job of a class spends on the option of the next columns.
func (l *layout) spent(list []spending, x []float64, next []int, class int) []spending {
	for _, i := range l.pairing.jobs[class] {
		if g := l.groupOf[i]; g >= 0 && x[next[g]] > 1e-12 {
			list = append(list, spending{i, x[next[g]]})
		}
	}
	return list
}

// sideBySide pairs two lists with equal sums in order (the north-west corner rule). Remainders due to rounding are
// dropped.
func sideBySide(a, b []spending, pair func(i, k int, v float64)) {
	for len(a) > 0 && len(b) > 0 {
		v := min(a[0].time, b[0].time)
		pair(a[0].job, b[0].job, v)
		a[0].time -= v
		b[0].time -= v
		if a[0].time <= b[0].time {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
}

// acrossCircle pairs the jobs of one list by laying their times along a circle and pairing opposite points. A job is
// opposite itself only if it covers more than half of the circle; that time is dropped.
func acrossCircle(a []spending, pair func(i, k int, v float64)) {
	total := 0.0
	for _, s := range a {
		total += s.time
	}
	half := total / 2
	var near, far []spending
	at := 0.0
	for _, s := range a {
		first := min(s.time, max(0, half-at))
		if first > 0 {
			near = append(near, spending{s.job, first})
		}
		if s.time > first {
			far = append(far, spending{s.job, s.time - first})
		}
		at += s.time
	}
	sideBySide(near, far, func(i, k int, v float64) {
		if i != k {
			pair(i, k, v)
		}
	})
}

// fitInto shrinks all shares by a common factor where rounding exceeded a time or capacity row.
func (sol *Solution) fitInto(s *Sharing) {
	time := make([]float64, len(s.Rate))
	used := make([]float64, len(s.Devices))
	count := func(a, b int, row []float64) {
		for j, x := range row {
			time[a] += x
			if b >= 0 {
				time[b] += x
			}
			used[j] += s.Scale[a] * x
		}
	}
	for i, row := range sol.X {
		count(i, -1, row)
	}
	for q, row := range sol.Pairs {
		count(s.Pairs[q].A, s.Pairs[q].B, row)
	}
	most := 1.0
	for _, v := range time {
		most = max(most, v)
	}
	for j, v := range used {
		if v > 0 {
			most = max(most, v/s.Devices[j])
		}
	}
	if most == 1 {
		return
	}
	shrink := func(row []float64) {
		for j := range row {
			row[j] /= most
		}
	}
	for _, row := range sol.X {
		shrink(row)
	}
	for _, row := range sol.Pairs {
		shrink(row)
	}
}
