package platform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"trainopt/internal/regular"
)

// Description is HDeepRM's description of a platform: the numbers and types of the nodes of each cluster.
//
//	{"clusters": [{"id": "a", "nodes": [{"type": "Dell R720", "number": 2}], "local_links": {"type": "InfiniBand QDR", "latency": "0us"}}],
//	 "global_links": {"type": "InfiniBand QDR", "latency": "0us"}}
type Description struct {
	Clusters []clusterDescription `json:"clusters"`
	Global   linkDescription      `json:"global_links"`
}

// clusterDescription is a group of nodes; its ID is informative only.
type clusterDescription struct {
	ID    string          `json:"id"`
	Nodes []group         `json:"nodes"`
	Local linkDescription `json:"local_links"`
}

// linkDescription is a type of network with a latency ("0us").
type linkDescription struct {
	Type    string `json:"type"`
	Latency string `json:"latency"`
}

// maxCores is the maximum number of cores of a description.
const maxCores = 1 << 24

// Examples returns the names of the embedded platforms: HDeepRM's six and our own mini.
func Examples() []string { return slices.Clone(embedded().names) }

// Example returns an embedded platform by name.
func Example(name string) (*Tree, error) {
	d, err := exampleDescription(name)
	if err != nil {
		return nil, err
	}
	return embedded().library.Build(d)
}

// exampleDescription returns the description of Example(name). It must not be modified.
func exampleDescription(name string) (*Description, error) {
	d := embedded().platforms[name]
	if d == nil {
		return nil, fmt.Errorf("platform: unknown example %q; there are %s", name, strings.Join(embedded().names, ", "))
	}
	return d, nil
}

// ReadTree reads a platform from a file, plain or gzip: HDeepRM's JSON with the types of the embedded library, or a
// Batsim platform in XML, see readXML. If the file does not exist, path may be the name of an example.
func ReadTree(path string) (*Tree, error) { return embedded().library.ReadTree(path) }

// ReadTree is like the function ReadTree, with the types of l.
func (l *library) ReadTree(path string) (*Tree, error) {
	data, err := regular.ReadFile(path, regular.Settings)
	if errors.Is(err, os.ErrNotExist) && embedded().platforms[path] != nil {
		return Example(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read platform: %w", err)
	}
	unpacked, err := regular.Gunzip(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(unpacked)
	}
	if err != nil {
		return nil, fmt.Errorf("read platform %s: %w", path, err)
	}
	t, err := l.parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("read platform %s: %w", path, err)
	}
	return t, nil
}

// parseTree parses XML if the data start with "<", else a description in JSON.
func (l *library) parseTree(data []byte) (*Tree, error) {
	if bytes.HasPrefix(bytes.TrimLeft(data, "\ufeff \t\r\n"), []byte("<")) {
		hosts, err := readXML(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return HostTree(hosts)
	}
	d, err := ParseDescription(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return l.Build(d)
}

// ParseDescription parses HDeepRM's JSON; unknown keys are errors. Library.Build resolves the types.
func ParseDescription(r io.Reader) (*Description, error) {
	var d Description
	j := json.NewDecoder(r)
	j.DisallowUnknownFields()
	if err := j.Decode(&d); err != nil {
		return nil, err
	}
	if _, err := j.Token(); err != io.EOF {
		return nil, errors.New("something follows after the platform")
	}
	return &d, nil
}

// Build returns the tree of a description. The error joins all types missing in the library.
func (l *library) Build(d *Description) (*Tree, error) {
	if err := l.check(d); err != nil {
		return nil, err
	}
	t := &Tree{Global: l.link(d.Global)}
	for k, c := range d.Clusters {
		t.Clusters = append(t.Clusters, Subcluster{Name: c.ID, Local: l.link(c.Local), First: len(t.Nodes)})
		for _, g := range c.Nodes {
			for range g.Number {
				t.addNode(k, g.Type, l.Nodes[g.Type], l.Processors)
			}
		}
		t.Clusters[k].Nodes = len(t.Nodes) - t.Clusters[k].First
	}
	t.index()
	return t, nil
}

// link returns the link of a description; the default latency is 0us.
func (l *library) link(d linkDescription) linkRate {
	latency := cmp.Or(d.Latency, "0us")
	return linkRate{d.Type, l.Networks[d.Type], latency}
}

// check joins all problems of a description.
func (l *library) check(d *Description) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	cores := 0
	for k, c := range d.Clusters {
		where := fmt.Sprintf("cluster %d (%q)", k, c.ID)
		if _, ok := l.Networks[c.Local.Type]; !ok {
			bad("%s: unknown network %q", where, c.Local.Type)
		}
		if len(c.Nodes) == 0 {
			bad("%s has no nodes", where)
		}
		for _, g := range c.Nodes {
			n, ok := l.Nodes[g.Type]
			if !ok {
				bad("%s: unknown node %q", where, g.Type)
				continue
			}
			if g.Number < 1 || g.Number > maxCores {
				bad("%s: %d of node %q, want 1 to %d", where, g.Number, g.Type, maxCores)
				continue
			}
			for _, p := range n.Processors {
				cores += min(g.Number*p.Number, maxCores+1) * l.Processors[p.Type].Cores
				cores = min(cores, maxCores+1)
			}
		}
	}
	if _, ok := l.Networks[d.Global.Type]; !ok && len(d.Clusters) > 0 {
		bad("global links: unknown network %q", d.Global.Type)
	}
	if len(d.Clusters) == 0 {
		bad("no clusters")
	}
	if cores > maxCores {
		bad("more than %d cores", maxCores)
	}
	return errors.Join(errs...)
}

// addNode appends a node of a type and its processors.
func (t *Tree) addNode(cluster int, name string, n nodeType, types map[string]processorType) {
	node := Node{Type: name, Cluster: cluster, Memory: n.Gigabytes * 1000, First: len(t.Processors)}
	for _, g := range n.Processors {
		p := types[g.Type]
		for range g.Number {
			t.addProcessor(Processor{Type: g.Type, Node: len(t.Nodes), Bandwidth: p.Bandwidth, GFLOPS: p.GHz * p.OpsPerCycle,
				Watts: p.Watts / float64(p.Cores), Cores: p.Cores})
		}
	}
	node.Processors = len(t.Processors) - node.First
	t.Nodes = append(t.Nodes, node)
}

// addProcessor appends a processor and numbers its cores.
func (t *Tree) addProcessor(p Processor) {
	p.First = t.Cores
	t.Processors = append(t.Processors, p)
	t.Cores += p.Cores
}

// index computes ProcessorOf and Reference from the processors.
func (t *Tree) index() {
	t.ProcessorOf = make([]int32, 0, t.Cores)
	for i, p := range t.Processors {
		for range p.Cores {
			t.ProcessorOf = append(t.ProcessorOf, int32(i))
		}
	}
	t.Reference = t.pairwise(0, t.Cores) / float64(max(t.Cores, 1))
}

// pairwise returns the sum of the speeds of n cores starting at first, in the summation order of NumPy, so that
// Reference equals HDeepRM's bit by bit: by halves, and below 129 numbers in eight running sums. O(n).
func (t *Tree) pairwise(first, n int) float64 {
	if n > 128 {
		half := n / 2
		half -= half % 8
		return t.pairwise(first, half) + t.pairwise(first+half, n-half)
	}
	speed := func(i int) float64 { return t.Processors[t.ProcessorOf[first+i]].GFLOPS }
	sum, i := 0.0, 0
	if n >= 8 {
		var r [8]float64
		for ; i+8 <= n; i += 8 {
			for k := range r {
				r[k] += speed(i + k)
			}
		}
		sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	}
	for ; i < n; i++ {
		sum += speed(i)
	}
	return sum
}

// Uniform returns a machine of equal parts, for tests and for machines without a description: nodes with the given MB
// of memory and processors of the given number of cores. It uses Type, Bandwidth, GFLOPS and Watts of p and panics if
// a number is below 1.
func Uniform(nodes, processors, cores int, memory float64, p Processor) *Tree {
	if nodes < 1 || processors < 1 || cores < 1 {
		panic(fmt.Sprintf("platform.Uniform: %d nodes of %d processors of %d cores", nodes, processors, cores))
	}
	link := linkRate{"InfiniBand QDR", "10.0Gbps", "0us"}
	t := &Tree{Clusters: []Subcluster{{Name: "uniform", Local: link, Nodes: nodes}}, Global: link}
	for n := range nodes {
		t.Nodes = append(t.Nodes, Node{Type: "uniform", Memory: memory, First: n * processors, Processors: processors})
		for range processors {
			p.Node, p.Cores = n, cores
			t.addProcessor(p)
		}
	}
	t.index()
	return t
}
