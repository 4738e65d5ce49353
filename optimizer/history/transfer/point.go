package transfer

import (
	"cmp"
	"math"
	"strings"

	"trainopt/internal/stat"
	"trainopt/optimizer/history"
)

// place is one training on one configuration, as input of the kernel. Widths are in octaves (log2).
type place struct {
	trait               trait
	job, device, source int  // numbers in the index; absent if no entry has them
	group               int  // model and data set × device × home
	own, unnamed        bool // on a machine of the user's; on one without a name
	gpu                 string
	cpu                 bool
	width               float64 // log2 GPUs, or CPUs without a GPU
	nodes               float64 // log2
	batch               float64 // log2 samples per step of one GPU (of the whole step on CPUs); NaN unknown
}

// point is the measurement at a place: the median of equal measurements.
type point struct {
	place
	y       float64 // log of the quantity, per GPU for rates
	count   float64 // number of measurements merged
	scatter float64 // variance of y reported by the entries themselves, 0 unknown
	spread  float64 // variance of one of several measurements on a machine of the user's, as observed; 0 unknown
	entries []int   // indices into the entries
	at      int     // index in its table
	unit    string  // of the entries' logs, for unit rates
}

// trait holds the features of a job in the kernel: nested names, each 0 if unknown, and sizes in decades.
type trait struct {
	exact, dataset, model, family int
	script, framework             int            // script by hash
	division                      int            // of a model over GPUs other than by data parallelism, by name; 0: none known
	size                          [sizes]float64 // unknown sizes are the constant unknown
}

const sizes = 4 // log10 of parameters, layers, samples, MB of data

// gpusPerNode is assumed if the number of nodes is unknown.
const gpusPerNode = 8

// index maps names to integers, so that the kernel compares integers.
type index struct {
	names    map[string]int
	jobs     map[trait]int
	device   map[string]int
	sources  map[site]int
	machines map[string]site // by the name of a machine or the source of an entry, and unit
	groups   map[[3]int]int
	size     map[int][sizes]float64 // sizes of a model, from its entries
	family   map[int]int            // family of a model, from its entries
	frozen   bool                   // assigns no new numbers: names in a query may be unknown
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

// plain normalises a name: it removes case, spaces and punctuation.
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

// unknown represents NaN in traits, so that equal traits are equal map keys.
const unknown = math.MaxFloat64

// trait returns the features of a job. 0 is an unknown name. A model has exactly one family, its own if none is
// stated, so that similarity is transitive, as a covariance requires.
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

// stated returns the features in a job itself.
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
	if j.Framework != "" {
		t.framework = x.name("framework", j.Framework)
	}
	if way := divisionOf(j); way != "" {
		t.division = x.name("division", way)
	}
	for i, v := range [sizes]float64{j.Params, j.Layers, j.DataCount, j.DataSizeMB} {
		t.size[i] = unknown
		if v > 0 && !math.IsInf(v, 0) {
			t.size[i] = math.Log10(v)
		}
	}
	return t
}

// divisionOf returns the division of the model over GPUs that the name of a job's model or framework states; "" without
// one. Such a job communicates, and scales, otherwise than with data parallelism.
func divisionOf(j history.Job) string {
	name := plain(j.Model + " " + j.Framework)
	for _, way := range [...][]string{{"pipeline", "gpipe", "pipedream"}, {"tensorparallel"}, {"expertparallel", "mixtureofexperts"}, {"modelparallel", "megatron"}} {
		for _, word := range way {
			if strings.Contains(name, word) {
				return way[0]
			}
		}
	}
	return ""
}

// learnModel records family and sizes of an entry's model, so that all entries of a model and the queries about it
// share them: a run with logged parameters and one without are the same training.
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

// number returns the number of a key, from 1, adding new keys; absent for a new key of a frozen index.
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

// place converts a configuration; false if the number of GPUs or CPUs is unknown.
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
	x.assignSite(&p, s)
	return p, true
}

// assignSite assigns a place to a site.
func (x *index) assignSite(p *place, s site) {
	p.source, p.own, p.unnamed = number(x, x.sources, s), s.own, s.own && s.name == ""
	p.group = number(x, x.groups, [3]int{p.trait.dataset, p.device, p.home()})
}

// home returns the source of a publication, or the number shared by all machines of the user.
func (p *place) home() int {
	if p.own {
		return ownHome
	}
	return p.source
}

const ownHome = 0

// siteCorrelation returns the correlation of the site-specific effects of two places, 0…1.
func (p *place) siteCorrelation(q *place) float64 {
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

// betweenMachines is the correlation of one machine of the user's with the part common to all of them.
const betweenMachines = 0.95

// beside reports whether two places are equal up to rounding.
func (p *place) beside(q *place) bool {
	const octaves = 1. / 256
	near := func(a, b float64) bool { return math.Abs(a-b) < octaves || math.IsNaN(a) && math.IsNaN(b) }
	return p.group == q.group && p.source == q.source && near(p.width, q.width) && near(p.nodes, q.nodes) && near(p.batch, q.batch)
}

// middle merges points of one place: y is the median, scatter the variance of the mean.
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
	p.y = stat.Median(y)
	if p.own && n >= leastSpread { // the smaller of two estimates: outliers widen one, measurements at two speeds the other
		squares := 0.0
		for i := range y {
			y[i] = math.Abs(y[i] - p.y)
			squares += sq(y[i])
		}
		p.spread = min(sq(stat.Median(y)/normalMAD), squares/float64(n-1))
		p.scatter = max(p.scatter, p.spread/float64(n))
	}
	return p
}

const (
	leastSpread = 4                  // measurements of one place whose spread counts
	normalMAD   = 0.6744897501960817 // median absolute deviation of a normal distribution, in standard deviations
)

// again returns the variance of one further measurement of a training: what its own measurements show, if that is more than
// assumed, as on a machine that other programs use at times.
func again(p *place, points []*point, assumed float64) float64 {
	for _, a := range points {
		if a.own && a.trait.exact == p.trait.exact && p.trait.exact != 0 {
			assumed = max(assumed, a.spread)
		}
	}
	return assumed
}

// comparePlaces orders places deterministically, because numbers are assigned in the order of entry ids.
func comparePlaces(a, b *place) int {
	if c := cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.job, b.job), cmp.Compare(a.source, b.source)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.batch, b.batch))
}
