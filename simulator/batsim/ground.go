package batsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
)

// resourceMap maps the machine of the peer, a set of numbered resources, to a local tree of cores.
type resourceMap struct {
	tree     *platform.Tree
	resource []int32 // resource number by core; nil where the numbers are equal
	states   bool    // the peer has the four power states of a core
}

// maxResources bounds the size of the peer's machine, and thereby memory.
const maxResources = 1 << 22

// mapResources assigns a resource to each core of the tree, and returns an error if their numbers differ. Without a tree, it
// constructs one from the resources.
func mapResources(d *beginsData, tree *platform.Tree) (resourceMap, error) {
	list := d.ComputeResources
	if len(list) == 0 {
		list = d.ResourcesData
	}
	n := d.Compute
	if n == 0 {
		n = max(d.Resources-d.Storage, len(list))
	}
	if n < 1 || n > maxResources || len(list) > 0 && len(list) != n {
		return resourceMap{}, fmt.Errorf("%s: %d compute resources, %d of them are described", typeSimulationBegins, n, len(list))
	}
	if len(list) == 0 {
		for i := range n {
			list = append(list, resource{ID: int32(i)})
		}
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b resource) int { return int(a.ID) - int(b.ID) })
	for i := range list {
		if list[i].ID < 0 || i > 0 && list[i].ID == list[i-1].ID {
			return resourceMap{}, fmt.Errorf("%s: the resource number %d is there twice, or below 0", typeSimulationBegins, list[i].ID)
		}
	}
	g := resourceMap{tree: tree, states: tree != nil}
	if tree == nil {
		g.tree = flat(list)
	} else if tree.Cores != n {
		return resourceMap{}, fmt.Errorf("%s: there are %d compute resources, but the platform has %d cores", typeSimulationBegins, n, tree.Cores)
	}
	g.resource = make([]int32, n)
	numbered, same := byName(list), true
	for i, r := range list {
		core := i
		if numbered != nil {
			core = numbered[i]
		}
		g.resource[core] = r.ID
		same = same && r.ID == int32(core)
		if watts, ok := r.Properties["watt_per_state"].(string); ok && strings.Count(watts, ",") != 3 {
			g.states = false
		}
	}
	if same {
		g.resource = nil
	}
	return g, nil
}

// byName returns the numbers at the end of the names if these are 0, 1, … in any order after a common prefix;
// otherwise nil.
func byName(list []resource) []int {
	numbers, seen := make([]int, len(list)), make([]bool, len(list))
	before := ""
	for i, r := range list {
		text := strings.TrimRight(r.Name, "0123456789")
		n, err := strconv.Atoi(r.Name[len(text):])
		if i == 0 {
			before = text
		}
		if err != nil || text != before || n >= len(list) || seen[n] {
			return nil
		}
		numbers[i], seen[n] = n, true
	}
	return numbers
}

// flat returns a machine of resources of which only the power is known: each is a node of one core with unlimited
// memory and bandwidth.
func flat(list []resource) *platform.Tree {
	hosts := make([]platform.Host, len(list))
	for i, r := range list {
		hosts[i] = platform.Host{Name: r.Name, Zone: "all", Speeds: []float64{1e9}}
		// The full power of the first state, "idle:full, …".
		text, _ := r.Properties["watt_per_state"].(string)
		text, _, _ = strings.Cut(text, ",")
		if watts, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ':')+1:], 64); err == nil && watts >= 0 && !math.IsInf(watts, 1) {
			hosts[i].Full = []float64{watts}
		}
	}
	tree, err := platform.HostTree(hosts)
	if err != nil { // unreachable: at least one host exists and each has a speed
		return platform.Uniform(len(list), 1, 1, math.MaxFloat64, platform.Processor{GFLOPS: 1, Bandwidth: math.MaxFloat64})
	}
	for i := range tree.Nodes { // exceeds every request, but is finite, since +Inf − +Inf is NaN
		tree.Nodes[i].Memory, tree.Processors[i].Bandwidth = 1<<60, 1<<60
	}
	return tree
}

// format returns the set of the cores' resources in Batsim's notation.
func (g *resourceMap) format(cores []int32) string {
	if g.resource == nil {
		return hdeeprm.FormatIntervals(cores)
	}
	there := make([]int32, len(cores))
	for i, c := range cores {
		there[i] = g.resource[c]
	}
	return hdeeprm.FormatIntervals(there)
}

// profiles holds the job profiles sent by the peer.
type profiles struct {
	byWorkload map[string]*hdeeprm.BatsimWorkload
	reference  float64
	talk       *Conversation
}

// newProfiles reads the profiles of SIMULATION_BEGINS. Invalid profiles cause a warning, and another one for each job
// that uses them.
func newProfiles(d *beginsData, reference float64, talk *Conversation) profiles {
	p := profiles{byWorkload: map[string]*hdeeprm.BatsimWorkload{}, reference: reference, talk: talk}
	for _, name := range slices.Sorted(maps.Keys(d.Profiles)) {
		w, err := readProfiles(d.Profiles[name])
		if w != nil {
			p.byWorkload[name] = w
		}
		if err != nil {
			talk.warn("profiles of workload %q: %v", name, err)
		}
	}
	return p
}

// readProfiles reads a JSON object of profiles by name.
func readProfiles(object json.RawMessage) (*hdeeprm.BatsimWorkload, error) {
	const before, after = `{"nb_res": 1, "jobs": [], "profiles": `, `}`
	return hdeeprm.ReadWorkload(io.MultiReader(strings.NewReader(before), bytes.NewReader(object), strings.NewReader(after)))
}

// job converts a submitted job. If its profile is absent, or requires a network simulation, its operations, memory
// and bandwidth are unknown: its requested time is then its walltime, or 1 s if it has none.
func (p *profiles) job(d *submittedData, now float64) (order.Job, error) {
	if len(d.Job) == 0 {
		return order.Job{}, fmt.Errorf("it is not described: want the field job")
	}
	var j jobData
	if err := json.Unmarshal(d.Job, &j); err != nil {
		return order.Job{}, fmt.Errorf("%s: %w", clip(d.Job), err)
	}
	if j.Resources < 1 {
		return order.Job{}, fmt.Errorf("it asks for %d resources, want at least 1", j.Resources)
	}
	if j.Submit == nil {
		j.Submit = &now
	}
	q := order.Job{Submit: *j.Submit, Procs: j.Resources, Limit: max(j.Walltime, 0), Request: 1, User: -1, Group: -1, Executable: -1, Deadline: math.NaN()}
	if q.Limit > 0 {
		q.Request = q.Limit
	}
	workload, _, _ := strings.Cut(d.ID, "!")
	w := p.byWorkload[workload]
	if len(d.Profile) > 0 {
		object, err := json.Marshal(map[string]json.RawMessage{string(j.Profile): d.Profile})
		if err == nil {
			w, err = readProfiles(object)
		}
		if err != nil {
			p.talk.warn("job %q: %v", d.ID, err)
		}
	}
	if w == nil {
		return q, nil
	}
	one := hdeeprm.BatsimWorkload{Profiles: w.Profiles, Jobs: []hdeeprm.BatsimJob{{ID: d.ID, Submit: q.Submit, Resources: q.Procs, Profile: string(j.Profile), Walltime: q.Limit}}}
	c, err := one.Convert(hdeeprm.SpeedOptions{Reference: p.reference})
	if err != nil || len(c.Jobs) == 0 {
		p.talk.warn("job %q: what it does is not known, it counts as asking for %v s", d.ID, q.Request)
		return q, nil
	}
	return c.Jobs[0], nil
}
