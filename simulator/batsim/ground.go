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

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/batsim"
)

// ground is the machine that both sides mean: a tree here, numbered resources there.
type ground struct {
	tree     *platform.Tree
	resource []int32 // of each core; nil when the numbers are the same
	states   bool    // the other side has the four states of a core
}

// maxResources bounds the machines that are believed in.
const maxResources = 1 << 22

// match finds the resource of each core. Without a tree it makes one.
func match(d *beginsData, tree *platform.Tree) (ground, error) {
	list := d.ComputeResources
	if len(list) == 0 {
		list = d.ResourcesData
	}
	n := d.Compute
	if n == 0 {
		n = max(d.Resources-d.Storage, len(list))
	}
	if n < 1 || n > maxResources || len(list) > 0 && len(list) != n {
		return ground{}, fmt.Errorf("%s: %d compute resources, %d of them are described", SimulationBegins, n, len(list))
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
			return ground{}, fmt.Errorf("%s: the resource number %d is there twice, or below 0", SimulationBegins, list[i].ID)
		}
	}
	g := ground{tree: tree, states: tree != nil}
	if tree == nil {
		g.tree = flat(list)
	} else if tree.Cores != n {
		return ground{}, fmt.Errorf("%s: there are %d compute resources, but the platform has %d cores", SimulationBegins, n, tree.Cores)
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

// byName are the numbers in which names end, when they are 0, 1, … in any order behind the same text; else nil.
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

// flat is a machine of resources of which nothing is known but what they draw: each a node of one core, never out of memory.
func flat(list []resource) *platform.Tree {
	hosts := make([]platform.Host, len(list))
	for i, r := range list {
		hosts[i] = platform.Host{Name: r.Name, Zone: "all", Speeds: []float64{1e9}}
		text, _ := r.Properties["watt_per_state"].(string)
		text, _, _ = strings.Cut(text, ",")
		if watts, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ':')+1:], 64); err == nil && watts >= 0 && !math.IsInf(watts, 1) {
			hosts[i].Full = []float64{watts}
		}
	}
	tree, err := platform.HostTree(hosts)
	if err != nil { // there is a host, and each has a speed
		return platform.Uniform(len(list), 1, 1, math.MaxFloat64, platform.Processor{GFLOPS: 1, Bandwidth: math.MaxFloat64})
	}
	for i := range tree.Nodes { // more than any job asks for, but a number: +Inf − +Inf is none
		tree.Nodes[i].Memory, tree.Processors[i].Bandwidth = 1<<60, 1<<60
	}
	return tree
}

// format is the set of the resources of cores.
func (g *ground) format(cores []int32) string {
	if g.resource == nil {
		return batsim.FormatIntervals(cores)
	}
	there := make([]int32, len(cores))
	for i, c := range cores {
		there[i] = g.resource[c]
	}
	return batsim.FormatIntervals(there)
}

// profiles are what jobs consist of, as far as this side was told.
type profiles struct {
	byWorkload map[string]*batsim.Workload
	reference  float64
	talk       *Talk
}

// newProfiles are those of SIMULATION_BEGINS. What is wrong with them is said, and asked again when a job needs it.
func newProfiles(d *beginsData, reference float64, talk *Talk) profiles {
	p := profiles{byWorkload: map[string]*batsim.Workload{}, reference: reference, talk: talk}
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

// readProfiles reads an object of profiles by their names.
func readProfiles(object json.RawMessage) (*batsim.Workload, error) {
	const before, after = `{"nb_res": 1, "jobs": [], "profiles": `, `}`
	return batsim.Read(io.MultiReader(strings.NewReader(before), bytes.NewReader(object), strings.NewReader(after)))
}

// job is one that was submitted. What a profile does not say, or says in a way that only a simulator of networks understands, is
// unknown: such a job asks for its walltime, and 1 s where it has none.
func (p *profiles) job(d *submittedData, now float64) (queue.Job, error) {
	if len(d.Job) == 0 {
		return queue.Job{}, fmt.Errorf("it is not described: want the field job")
	}
	var j jobData
	if err := json.Unmarshal(d.Job, &j); err != nil {
		return queue.Job{}, fmt.Errorf("%s: %w", clip(d.Job), err)
	}
	if j.Resources < 1 {
		return queue.Job{}, fmt.Errorf("it asks for %d resources, want at least 1", j.Resources)
	}
	if j.Submit == nil {
		j.Submit = &now
	}
	q := queue.Job{Submit: *j.Submit, Procs: j.Resources, Limit: max(j.Walltime, 0), Request: 1, User: -1, Group: -1, Executable: -1, Deadline: math.NaN()}
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
	one := batsim.Workload{Profiles: w.Profiles, Jobs: []batsim.Job{{ID: d.ID, Submit: q.Submit, Resources: q.Procs, Profile: string(j.Profile), Walltime: q.Limit}}}
	c, err := one.Convert(batsim.ConvertOptions{Reference: p.reference})
	if err != nil || len(c.Jobs) == 0 {
		p.talk.warn("job %q: what it does is not known, it counts as asking for %v s", d.ID, q.Request)
		return q, nil
	}
	return c.Jobs[0], nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
