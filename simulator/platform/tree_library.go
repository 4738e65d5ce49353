package platform

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// library contains the types of platform components by name.
type library struct {
	Networks   map[string]string // bandwidth in SimGrid notation: "10.0Gbps"
	Processors map[string]processorType
	Nodes      map[string]nodeType
}

// processorType is a type of processor.
type processorType struct {
	Architecture string
	Cores        int
	GHz          float64
	Bandwidth    float64 // to memory, GB/s, shared by all its cores
	Cache        float64 // last level, MB; unused here
	Watts        float64 // thermal design power of all its cores
	OpsPerCycle  float64 // in double precision, per core
}

// nodeType is a type of machine.
type nodeType struct {
	MemoryType string
	Gigabytes  float64 // of 10⁹ bytes
	Processors []group
}

// group is a number of components of one type.
type group struct {
	Type   string `json:"type"`
	Number int    `json:"number"`
}

//go:embed tree.table
var treeTable string

// embedded parses the embedded table on first use.
var embedded = sync.OnceValue(func() *treeFile {
	f, err := readTreeTable(strings.NewReader(treeTable))
	if err != nil {
		panic("the embedded platforms: " + err.Error()) // covered by a test
	}
	return f
})

// BuiltinLibrary returns a copy of HDeepRM's embedded library of 56 types of nodes, 45 of processors and 4 of
// networks. The header of tree.table states its source.
func BuiltinLibrary() *library {
	l := embedded().library
	return &library{maps.Clone(l.Networks), maps.Clone(l.Processors), maps.Clone(l.Nodes)}
}

// LoadLibrary reads a user's library in HDeepRM's form: network_types.json, processor_types.json and node_types.json
// of a folder. It replaces the embedded library.
func LoadLibrary(dir string) (*library, error) {
	l := &library{map[string]string{}, map[string]processorType{}, map[string]nodeType{}}
	if err := errors.Join(
		typesFile(filepath.Join(dir, "network_types.json"), func(name string, v struct{ Bandwidth string }) {
			l.Networks[name] = v.Bandwidth
		}),
		typesFile(filepath.Join(dir, "processor_types.json"), func(name string, v processorJSON) {
			l.Processors[name] = processorType{v.Uarch, v.Cores, v.ClockRate, v.MemBW, v.LLC, v.Power, v.FLOPs}
		}),
		typesFile(filepath.Join(dir, "node_types.json"), func(name string, v nodeJSON) {
			l.Nodes[name] = nodeType{v.Memory.Type, v.Memory.Capacity, v.Processors}
		}),
	); err != nil {
		return nil, err
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("read the types in %s: %w", dir, err)
	}
	return l, nil
}

// processorJSON is a processor in HDeepRM's processor_types.json.
type processorJSON struct {
	Uarch     string
	Cores     int
	ClockRate float64 `json:"clock_rate"`
	MemBW     float64 `json:"mem_bw"`
	LLC       float64 `json:"llc_size"`
	Power     float64
	FLOPs     float64 `json:"dpflops_per_cycle"`
}

// nodeJSON is a node in HDeepRM's node_types.json.
type nodeJSON struct {
	Processors []group
	Memory     struct {
		Type     string
		Capacity float64
	}
}

// typesFile calls put for each type of a file, except for its "_doc".
func typesFile[T any](path string, put func(name string, v T)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read types: %w", err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("read types: %s: %w", path, err)
	}
	delete(all, "_doc")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var v T
		if err := json.Unmarshal(all[name], &v); err != nil {
			return fmt.Errorf("read types: %s: %q: %w", path, name, err)
		}
		put(name, v)
	}
	return nil
}

// Validate joins all problems: quantities that are not positive, and unknown processors.
func (l *library) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(l.Processors)) {
		p := l.Processors[name]
		if p.Cores < 1 || !positive(p.GHz, p.Bandwidth, p.OpsPerCycle) || !(p.Watts >= 0) || p.Watts > maxQuantity {
			bad("processor %q: %d cores at %v GHz with %v operations a cycle, %v GB/s and %v W; each must be above 0",
				name, p.Cores, p.GHz, p.OpsPerCycle, p.Bandwidth, p.Watts)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Nodes)) {
		n := l.Nodes[name]
		if !positive(n.Gigabytes) {
			bad("node %q: %v GB of memory, want more than 0", name, n.Gigabytes)
		}
		if len(n.Processors) == 0 {
			bad("node %q has no processors", name)
		}
		for _, g := range n.Processors {
			if _, ok := l.Processors[g.Type]; !ok {
				bad("node %q: unknown processor %q", name, g.Type)
			}
			if g.Number < 1 {
				bad("node %q: %d of processor %q, want at least 1", name, g.Number, g.Type)
			}
		}
	}
	return errors.Join(errs...)
}

// maxQuantity is an upper bound of speed, bandwidth, memory and power of a machine; larger values are errors.
const maxQuantity = 1e12

// positive reports whether all values are positive and at most maxQuantity.
func positive(values ...float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) || v > maxQuantity })
}

// treeFile is a library with platforms of its types.
type treeFile struct {
	library   *library
	platforms map[string]*Description
	names     []string // of the platforms, in the order of the file
}

// WriteTreeTable writes a library and platforms in the form of the embedded file. head contains comment lines. Names
// must not contain tabs, which separate the fields:
//
//	# comment
//	network	bandwidth	name
//	processor	cores	GHz	GB/s	cache MB	W	operations a cycle	architecture	name
//	node	GB	type of memory	name	2 processor …
//	platform	network	latency	name
//	cluster	network	latency	name	60 node …
func WriteTreeTable(w io.Writer, l *library, names []string, platforms map[string]*Description, head ...string) error {
	b := bufio.NewWriter(w)
	for _, h := range head {
		fmt.Fprintf(b, "# %s\n", h)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	line := func(fields []string, groups ...group) {
		for _, g := range groups {
			fields = append(fields, fmt.Sprintf("%d %s", g.Number, g.Type))
		}
		b.WriteString(strings.Join(fields, "\t") + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Networks)) {
		line([]string{"network", l.Networks[name], name})
	}
	for _, name := range slices.Sorted(maps.Keys(l.Processors)) {
		p := l.Processors[name]
		line([]string{"processor", strconv.Itoa(p.Cores), number(p.GHz), number(p.Bandwidth), number(p.Cache), number(p.Watts),
			number(p.OpsPerCycle), p.Architecture, name})
	}
	for _, name := range slices.Sorted(maps.Keys(l.Nodes)) {
		n := l.Nodes[name]
		line([]string{"node", number(n.Gigabytes), n.MemoryType, name}, n.Processors...)
	}
	for _, name := range names {
		d := platforms[name]
		line([]string{"platform", d.Global.Type, d.Global.Latency, name})
		for _, c := range d.Clusters {
			line([]string{"cluster", c.Local.Type, c.Local.Latency, c.ID}, c.Nodes...)
		}
	}
	return b.Flush()
}

// readTreeTable reads the format of WriteTreeTable.
func readTreeTable(r io.Reader) (*treeFile, error) {
	f := &treeFile{library: &library{map[string]string{}, map[string]processorType{}, map[string]nodeType{}}, platforms: map[string]*Description{}}
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for line := 1; s.Scan(); line++ {
		if s.Text() == "" || s.Text()[0] == '#' {
			continue
		}
		if err := f.add(strings.Split(s.Text(), "\t")); err != nil {
			return nil, fmt.Errorf("read table of platforms: line %d: %w", line, err)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read table of platforms: %w", err)
	}
	if err := f.library.Validate(); err != nil {
		return nil, fmt.Errorf("read table of platforms: %w", err)
	}
	return f, nil
}

// add parses one line of the table.
func (f *treeFile) add(fields []string) error {
	want := map[string]int{"network": 3, "processor": 9, "node": 5, "platform": 4, "cluster": 5}[fields[0]]
	if want == 0 {
		return fmt.Errorf("%q is not network, processor, node, platform or cluster", fields[0])
	}
	if len(fields) < want {
		return fmt.Errorf("%s: %d fields, want %d", fields[0], len(fields), want)
	}
	var errs []error
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		errs = append(errs, err)
		return x
	}
	groups := func(fields []string) (out []group) {
		for _, s := range fields {
			n, name, _ := strings.Cut(s, " ")
			out = append(out, group{name, int(number(n))})
		}
		return out
	}
	switch l := f.library; fields[0] {
	case "network":
		l.Networks[fields[2]] = fields[1]
	case "processor":
		l.Processors[fields[8]] = processorType{fields[7], int(number(fields[1])), number(fields[2]), number(fields[3]),
			number(fields[4]), number(fields[5]), number(fields[6])}
	case "node":
		l.Nodes[fields[3]] = nodeType{fields[2], number(fields[1]), groups(fields[4:])}
	case "platform":
		f.names = append(f.names, fields[3])
		f.platforms[fields[3]] = &Description{Global: linkDescription{fields[1], fields[2]}}
	case "cluster":
		if len(f.names) == 0 {
			return errors.New("a cluster before any platform")
		}
		d := f.platforms[f.names[len(f.names)-1]]
		d.Clusters = append(d.Clusters, clusterDescription{fields[3], groups(fields[4:]), linkDescription{fields[1], fields[2]}})
	}
	return errors.Join(errs...)
}
