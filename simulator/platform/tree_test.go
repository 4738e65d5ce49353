package platform

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const published = "../../../shared/data/hdeeprm"

// publishedFile returns the path of a file of the published data; it skips the test if the file does not exist.
func publishedFile(t *testing.T, path string) string {
	t.Helper()
	full := filepath.Join(published, path)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return full
}

// The sizes of HDeepRM's platforms according to its own generator.
var sizes = map[string]struct {
	clusters, nodes, processors, cores int
	gflops, reference                  float64
}{
	"learning": {1, 1, 2, 4, 16.8, 4.2},
	"das2":     {1, 72, 72, 144, 144, 1},
	"pik":      {1, 320, 640, 2560, 30720, 12},
	"gaia":     {1, 153, 342, 2280, 26711.04, 11.7153684},
	"ricc":     {1, 1024, 2048, 8192, 96010.24, 11.72},
	"mc2":      {32, 641, 1548, 10002, 164255.84, 16.4222995},
	"mini":     {2, 13, 22, 104, 1162.88, 11.1815385}, // 24·9.04 + 24·11.72 + 16·17.6 + 32·11.72 + 8·1
}

func TestExamples(t *testing.T) {
	if got := strings.Join(Examples(), " "); got != "learning das2 pik gaia ricc mc2 mini" {
		t.Errorf("examples are %s", got)
	}
	for name, want := range sizes {
		t.Run(name, func(t *testing.T) {
			tree, err := Example(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := [4]int{len(tree.Clusters), len(tree.Nodes), len(tree.Processors), tree.Cores}; got != [4]int{want.clusters, want.nodes, want.processors, want.cores} {
				t.Errorf("clusters, nodes, processors, cores: got %v, want %+v", got, want)
			}
			gflops := 0.0
			for _, p := range tree.Processors {
				gflops += p.GFLOPS * float64(p.Cores)
			}
			if math.Abs(gflops-want.gflops) > 1e-6 {
				t.Errorf("all cores together: got %v GFLOPS, want %v", gflops, want.gflops)
			}
			if math.Abs(tree.Reference-want.reference) > 5e-8 {
				t.Errorf("reference speed: got %.8f, want %v", tree.Reference, want.reference)
			}
			checkTree(t, tree)
		})
	}
	if _, err := Example("curie"); err == nil || !strings.Contains(err.Error(), "gaia") {
		t.Errorf("an unknown example: got %v, want an error that names those that there are", err)
	}
}

// checkTree fails if the parts of a tree are inconsistent.
func checkTree(t interface{ Fatalf(string, ...any) }, tree *Tree) {
	node, processor, core := 0, 0, 0
	for k, c := range tree.Clusters {
		if c.First != node {
			t.Fatalf("cluster %d begins at node %d, want %d", k, c.First, node)
		}
		for ; node < c.First+c.Nodes; node++ {
			n := tree.Nodes[node]
			if n.Cluster != k || n.First != processor {
				t.Fatalf("node %d: %+v, want cluster %d, processor %d", node, n, k, processor)
			}
			for ; processor < n.First+n.Processors; processor++ {
				p := tree.Processors[processor]
				if p.Node != node || p.First != core {
					t.Fatalf("processor %d: %+v, want node %d, core %d", processor, p, node, core)
				}
				for ; core < p.First+p.Cores; core++ {
					if int(tree.ProcessorOf[core]) != processor || tree.Processors[tree.ProcessorOf[core]].Node != node {
						t.Fatalf("core %d is of processor %d, want %d", core, tree.ProcessorOf[core], processor)
					}
				}
			}
		}
	}
	if node != len(tree.Nodes) || processor != len(tree.Processors) || core != tree.Cores || core != len(tree.ProcessorOf) {
		t.Fatalf("%d nodes, %d processors, %d cores reached, want %d, %d, %d", node, processor, core, len(tree.Nodes), len(tree.Processors), tree.Cores)
	}
}

func TestLibrary(t *testing.T) {
	l := BuiltinLibrary()
	if got := fmt.Sprint(len(l.Nodes), len(l.Processors), len(l.Networks)); got != "56 45 4" {
		t.Errorf("nodes, processors, networks: got %s", got)
	}
	want := processorType{Architecture: "Nehalem-EP", Cores: 4, GHz: 2.93, Bandwidth: 32, Cache: 8, Watts: 71.25, OpsPerCycle: 4}
	if got := l.Processors["Xeon X5570"]; got != want {
		t.Errorf("Xeon X5570: got %+v, want %+v", got, want)
	}
	delete(l.Nodes, "Test0")
	if _, err := Example("learning"); err != nil {
		t.Errorf("a caller changed the library for all: %v", err)
	}
}

// The parts of the learning platform: one node, a processor of 1.0 GHz and one of 1.1 GHz with two cores each.
func TestLearning(t *testing.T) {
	tree, err := Example("learning")
	if err != nil {
		t.Fatal(err)
	}
	p := tree.Processors[1]
	if tree.Nodes[0].Memory != 32000 || p.Bandwidth != 32 || p.GFLOPS != 4.4 || p.Watts != 50 || p.First != 2 || p.Cores != 2 {
		t.Errorf("node %+v, processor %+v", tree.Nodes[0], p)
	}
	if want := (linkRate{"InfiniBand QDR", "10.0Gbps", "0us"}); tree.Clusters[0].Local != want || tree.Global != want {
		t.Errorf("links %+v and %+v, want %+v", tree.Clusters[0].Local, tree.Global, want)
	}
}

// Platforms read from the published files, with their library or the embedded one, equal the embedded ones.
func TestReadTree(t *testing.T) {
	library, err := LoadLibrary(publishedFile(t, "types"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Examples() {
		path := publishedFile(t, "platforms/"+name+".json")
		want, err := Example(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, read := range []func(string) (*Tree, error){ReadTree, library.ReadTree} {
			if got, err := read(path); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, or not the example", name, err)
			}
		}
	}
	if tree, err := ReadTree("gaia"); err != nil || tree.Cores != 2280 {
		t.Errorf("the example gaia by ReadTree: %v", err)
	}
}

func TestDescriptionsWithMistakes(t *testing.T) {
	link := `{"type":"InfiniBand QDR","latency":"0us"}`
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":        {`{`, "unexpected"},
		"unknown key":     {`{"cluster":[]}`, `unknown field "cluster"`},
		"no clusters":     {`{"clusters":[]}`, "no clusters"},
		"unknown node":    {`{"clusters":[{"id":"a","nodes":[{"type":"PDP-11","number":1}],"local_links":` + link + `}],"global_links":` + link + `}`, `cluster 0 ("a"): unknown node "PDP-11"`},
		"unknown network": {`{"clusters":[{"id":"a","nodes":[{"type":"Test0","number":1}],"local_links":{"type":"Token Ring"}}],"global_links":{}}`, `unknown network "Token Ring"`},
		"no number":       {`{"clusters":[{"id":"a","nodes":[{"type":"Test0","number":0}],"local_links":` + link + `}],"global_links":` + link + `}`, `0 of node "Test0"`},
		"too many":        {`{"clusters":[{"id":"a","nodes":[{"type":"Urga Node","number":16777216}],"local_links":` + link + `}],"global_links":` + link + `}`, "more than 16777216 cores"},
		"two documents":   {`{"clusters":[]} {}`, "something follows"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.json")
			if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadTree(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLibrariesWithMistakes(t *testing.T) {
	good := map[string]string{
		"network_types.json":   `{"_doc":{"0":"x"},"net":{"bandwidth":"1Gbps"}}`,
		"processor_types.json": `{"p":{"uarch":"u","cores":2,"clock_rate":1,"mem_bw":10,"power":20,"dpflops_per_cycle":4}}`,
		"node_types.json":      `{"n":{"processors":[{"type":"p","number":2}],"memory":{"type":"DDR","capacity":1}}}`,
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"good":              {"", "", ""},
		"no file":           {"node_types.json", "-", "node_types.json"},
		"no cores":          {"processor_types.json", `{"p":{"cores":0,"clock_rate":1,"mem_bw":10,"power":20,"dpflops_per_cycle":4}}`, `processor "p": 0 cores`},
		"unknown processor": {"node_types.json", `{"n":{"processors":[{"type":"q","number":2}],"memory":{"capacity":1}}}`, `node "n": unknown processor "q"`},
		"no memory":         {"node_types.json", `{"n":{"processors":[{"type":"p","number":2}]}}`, `node "n": 0 GB`},
		"wrong kind":        {"node_types.json", `{"n":3}`, `"n"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range good {
				if file == c.file {
					text = c.text
				}
				if text != "-" {
					if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := LoadLibrary(dir); c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestUniform(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p, c := rapid.IntRange(1, 9).Draw(t, "nodes"), rapid.IntRange(1, 5).Draw(t, "processors"), rapid.IntRange(1, 5).Draw(t, "cores")
		tree := Uniform(n, p, c, 64000, Processor{Bandwidth: 32, GFLOPS: 10, Watts: 5})
		checkTree(t, tree)
		if tree.Cores != n*p*c || math.Abs(tree.Reference-10) > 1e-12 {
			t.Fatalf("%d cores at %v GFLOPS, want %d at 10", tree.Cores, tree.Reference, n*p*c)
		}
	})
}

func FuzzParseDescription(f *testing.F) {
	f.Add(`{"clusters":[{"id":"a","nodes":[{"type":"Test0","number":3}],"local_links":{"type":"InfiniBand QDR","latency":"0us"}}],"global_links":{"type":"InfiniBand QDR","latency":"0us"}}`)
	f.Add(`{"clusters":[{"nodes":[{"type":"Urga Node","number":99999999999}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDescription(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range d.Clusters {
			for _, g := range c.Nodes {
				if g.Number > 1000 {
					return // valid but slow
				}
			}
		}
		if tree, err := BuiltinLibrary().Build(d); err == nil {
			checkTree(t, tree)
		}
	})
}

func FuzzReadTreeTable(f *testing.F) {
	f.Add(treeTable)
	f.Add("cluster\ta\tb\tc\t1 d\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readTreeTable(strings.NewReader(text))
		if err != nil {
			return
		}
		var b strings.Builder
		if err := WriteTreeTable(&b, read.library, read.names, read.platforms); err != nil {
			t.Fatal(err)
		}
		again, err := readTreeTable(strings.NewReader(b.String()))
		if err != nil || len(again.library.Nodes) != len(read.library.Nodes) || len(again.names) != len(read.names) {
			t.Fatalf("written and read again: %v", err)
		}
	})
}
