package transfer

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/history"
)

// place is one training at one width as the kernel sees it. Widths are in octaves (log2).
type place struct {
	trait               trait
	job, device, source int  // numbers in the index, absent for what no entry has
	group               int  // model and data set × device × home
	own, unnamed        bool // at a machine of the user's; at one without a name
	gpu                 string
	cpu                 bool
	width               float64 // log2 GPUs, or CPUs where there is no GPU
	nodes               float64 // log2
	batch               float64 // log2 samples per step of one GPU (of the whole step on CPUs); NaN unknown
}

// point is what was measured at a place: the middle of equal measurements.
type point struct {
	place
	y       float64 // log of the quantity, per GPU where it is a rate
	count   float64 // measurements that it is the middle of
	scatter float64 // variance of y that the entries themselves tell, 0 unknown
	entries []int   // indices into the entries
	at      int     // in its table
	unit    string  // of the entries' log, for unit rates
}

// trait is what the kernel knows of a job: nested names, each 0 where unknown, and sizes in decades.
type trait struct {
	exact, dataset, model, family int
	script                        int            // by its hash
	size                          [sizes]float64 // the constant unknown where it is
}

const sizes = 4 // log10 of parameters, layers, samples, MB of data

// gpusPerNode is assumed where the number of nodes is unknown.
const gpusPerNode = 8

// index turns names into numbers, so that a kernel compares integers.
type index struct {
	names    map[string]int
	jobs     map[trait]int
	device   map[string]int
	sources  map[site]int
	machines map[string]site // by the name of a machine or an entry's source, and unit
	groups   map[[3]int]int
	size     map[int][sizes]float64 // what the entries of a model say of its sizes
	family   map[int]int            // and of its family
	frozen   bool                   // no new numbers: what is asked may be unknown
}

func newIndex() *index {
	return &index{names: map[string]int{}, jobs: map[trait]int{}, device: map[string]int{}, sources: map[site]int{}, machines: map[string]site{}, groups: map[[3]int]int{}, size: map[int][sizes]float64{}, family: map[int]int{}}
}

// absent is the number of a name that no entry has.
const absent = -1

func (x *index) name(parts ...string) int {
	for i := range parts {
		parts[i] = plain(parts[i])
	}
	return number(x, x.names, strings.Join(parts, "\x00"))
}

// plain is a name without what writers do differently: case, spaces and punctuation.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
			return r
		}
		return -1
	}, s)
}

// unknown stands for NaN in traits, so that equal traits are equal keys.
const unknown = math.MaxFloat64

// trait reads a job. 0 is an unknown name. A model has one family, its own where none is said, so that likeness is transitive,
// as a covariance must be.
func (x *index) trait(j history.Job) trait {
	t := x.stated(j)
	if family, ok := x.family[t.model]; ok {
		t.family = family
	} else if t.family == 0 && t.model != 0 {
		t.family = x.name("family of", cmp.Or(j.Model, j.ScriptSHA256, j.Script))
	}
	if known, ok := x.size[t.model]; ok && t.model > 0 {
		for i, v := range known {
			if v == unknown || t.size[i] == unknown {
				t.size[i] = v
			}
		}
	}
	return t
}

// stated is what a job says of itself.
func (x *index) stated(j history.Job) trait {
	t := trait{}
	if model := cmp.Or(j.Model, j.ScriptSHA256, j.Script); model != "" {
		t.model = x.name("model", model)
		t.dataset = x.name("dataset", model, j.Dataset)
		t.exact = x.name("exact", model, j.Dataset, j.Framework, j.ScriptSHA256)
	}
	if j.ScriptSHA256 != "" {
		t.script = x.name("script", j.ScriptSHA256)
	}
	if j.Family != "" {
		t.family = x.name("family", j.Family)
	}
	for i, v := range [sizes]float64{j.Params, j.Layers, j.DataCount, j.DataSizeMB} {
		t.size[i] = unknown
		if v > 0 && !math.IsInf(v, 0) {
			t.size[i] = math.Log10(v)
		}
	}
	return t
}

// learnModel notes what an entry says of its model's family and sizes, so that all entries of a model, and a question about it, know
// the same ones: one run that logged the parameters and one that did not are not strangers.
func (x *index) learnModel(j history.Job) {
	t := x.stated(j)
	if t.model == 0 {
		return
	}
	if x.family[t.model] == 0 && t.family != 0 {
		x.family[t.model] = t.family
	}
	known, ok := x.size[t.model]
	if !ok {
		known = t.size
	}
	for i, v := range t.size {
		if known[i] == unknown {
			known[i] = v
		}
	}
	x.size[t.model] = known
}

// number is the number of a key, from 1; a frozen index gives none to a new key.
func number[K comparable](x *index, m map[K]int, k K) int {
	n, ok := m[k]
	switch {
	case ok:
		return n
	case x.frozen:
		return absent
	}
	m[k] = len(m) + 1
	return len(m)
}

// place reads a configuration. False: it does not say how wide the training is.
func (x *index) place(t trait, c history.Config, s site) (place, bool) {
	p := place{cpu: c.GPUs == 0, batch: math.NaN()}
	wide, device := c.GPUs, c.GPU
	if p.cpu {
		wide, device = c.CPUs, "CPU"
	}
	if !(wide >= 1) || math.IsInf(wide, 0) {
		return p, false
	}
	p.width = math.Log2(wide)
	nodes := float64(c.Nodes)
	switch {
	case p.cpu:
		nodes = max(1, nodes)
	case nodes <= 0:
		nodes = math.Ceil(wide / gpusPerNode)
	}
	p.nodes = math.Log2(min(nodes, wide))
	if c.Batch > 0 && !math.IsInf(c.Batch, 0) {
		p.batch = math.Log2(c.Batch)
		if !p.cpu {
			p.batch -= p.width
		}
	}
	p.gpu, p.trait = device, t
	p.job, p.device = number(x, x.jobs, p.trait), number(x, x.device, device)
	x.settle(&p, s)
	return p, true
}

// settle puts a place at a site.
func (x *index) settle(p *place, s site) {
	p.source, p.own, p.unnamed = number(x, x.sources, s), s.own, s.own && s.name == ""
	p.group = number(x, x.groups, [3]int{p.trait.dataset, p.device, p.home()})
}

// home is the source of a publication, and one number for all machines of the user's.
func (p *place) home() int {
	if p.own {
		return ownHome
	}
	return p.source
}

const ownHome = 0

// nearby is how much of what is particular to a site two places share.
func (p *place) nearby(q *place) float64 {
	switch {
	case p.own != q.own:
		return 0
	case p.source == q.source && p.unnamed == q.unnamed:
		return 1
	case !p.own:
		return 0
	case p.unnamed || q.unnamed:
		return betweenMachines
	}
	return betweenMachines * betweenMachines
}

// betweenMachines is the correlation of one machine of the user's with what all of them share.
const betweenMachines = 0.95

// merge makes one point of equal places, their median, so that a thousand repetitions cost what one does and a wild one
// costs nothing.
func merge(points []point) []point {
	order := make([]int, len(points)) // a point is large to move
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(comparePlaces(&points[a].place, &points[b].place), cmp.Compare(a, b))
	})
	sorted := make([]point, len(points))
	for i, from := range order {
		sorted[i] = points[from]
	}
	points = sorted
	var out []point
	for from := 0; from < len(points); {
		to := from + 1
		for to < len(points) && points[to].job == points[from].job && points[to].beside(&points[from].place) {
			to++
		}
		out = append(out, middle(points[from:to]))
		from = to
	}
	return out
}

// beside says that two places are the same but for rounding.
func (p *place) beside(q *place) bool {
	const octaves = 1. / 256
	near := func(a, b float64) bool { return math.Abs(a-b) < octaves || math.IsNaN(a) && math.IsNaN(b) }
	return p.group == q.group && p.source == q.source && near(p.width, q.width) && near(p.nodes, q.nodes) && near(p.batch, q.batch)
}

func middle(points []point) point {
	p, n := points[0], len(points)
	if n == 1 {
		return p
	}
	p.count, p.entries, p.scatter = 0, nil, 0
	y := make([]float64, n)
	for i, q := range points {
		y[i] = q.y
		p.count += q.count
		p.scatter += q.scatter / float64(n*n)
		p.entries = append(p.entries, q.entries...)
	}
	slices.Sort(y)
	p.y = (y[(n-1)/2] + y[n/2]) / 2
	return p
}

// comparePlaces orders places; numbers are given in the order of ids, so that it is always the same.
func comparePlaces(a, b *place) int {
	if c := cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.job, b.job), cmp.Compare(a.source, b.source)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.batch, b.batch))
}
