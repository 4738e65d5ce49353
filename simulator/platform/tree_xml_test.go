package platform

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The platform that HDeepRM generates for its example learning.
func TestWriteXML(t *testing.T) {
	tree, err := Example("learning")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tree.WriteXML(&b); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/learning.xml"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Written platforms can be read: the same hosts, in the order of the cores, with speeds and powers to three decimals.
func TestXMLThereAndBack(t *testing.T) {
	for _, name := range Examples() {
		t.Run(name, func(t *testing.T) {
			tree, err := Example(name)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := tree.WriteXML(&b); err != nil {
				t.Fatal(err)
			}
			hosts, err := readXML(strings.NewReader(b.String()))
			if err != nil {
				t.Fatal(err)
			}
			if len(hosts) != tree.Cores {
				t.Fatalf("%d hosts, want %d", len(hosts), tree.Cores)
			}
			for core, h := range hosts {
				p := tree.Processors[tree.ProcessorOf[core]]
				if h.Name != fmt.Sprint("cor_", core) || h.PState != 3 || len(h.Speeds) != 4 || len(h.Full) != 4 ||
					math.Abs(h.Speeds[0]/1e9-p.GFLOPS) > 6e-4 || math.Abs(h.Full[0]-p.Watts) > 6e-4 || math.Abs(h.Full[2]-p.Watts/4) > 6e-4 {
					t.Fatalf("core %d: %+v of %+v", core, h, p)
				}
				if want := fmt.Sprint("clu_", tree.Nodes[p.Node].Cluster); h.Zone != want {
					t.Fatalf("core %d is in zone %s, want %s", core, h.Zone, want)
				}
			}
			flat, err := HostTree(hosts)
			if err != nil {
				t.Fatal(err)
			}
			checkTree(t, flat)
			if len(flat.Clusters) != len(tree.Clusters) || math.Abs(flat.Reference-tree.Reference) > 1e-3 || !math.IsInf(flat.Nodes[0].Memory, 1) {
				t.Errorf("%d clusters at %v GFLOPS, want %d at %v", len(flat.Clusters), flat.Reference, len(tree.Clusters), tree.Reference)
			}
		})
	}
}

const smallXML = `<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<config id="General"><prop id="network/coordinates" value="yes"></prop></config>
<zone id="AS0" routing="Full">
  <host id="master" speed="100.0Mf"><prop id="role" value="master"/></host>
  <cluster id="rack" prefix="node-" suffix=".x" radical="0-1,10" speed="2.5Gf,1e9f" bw="1GBps" lat="0" pstate="1">
    <prop id="watt_per_state" value="95.0:100:200.0, 90:150"/>
  </cluster>
  <host id="node-2.x" speed="1Tf" core="4"/>
  <host id="big" speed="3.0e3Mf"><prop id="watt_per_state" value="10.0:190.74"/><prop id="other" value="x"/></host>
  <link id="l" bandwidth="1GBps" latency="0"/>
</zone>
</platform>`

func TestReadXML(t *testing.T) {
	hosts, err := readXML(strings.NewReader(smallXML))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&b, "%s|%s|%v|%v|%v|%d\n", h.Name, h.Zone, h.Speeds, h.Idle, h.Full, h.PState)
	}
	const want = `big|AS0|[3e+09]|[10]|[190.74]|0
node-0.x|rack|[2.5e+09 1e+09]|[95 90]|[200 150]|1
node-1.x|rack|[2.5e+09 1e+09]|[95 90]|[200 150]|1
node-2.x|AS0|[1e+12]|[]|[]|0
node-10.x|rack|[2.5e+09 1e+09]|[95 90]|[200 150]|1
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestXMLWithMistakes(t *testing.T) {
	host := func(attributes, inside string) string {
		return "<platform><zone id='z'>\n<host " + attributes + ">" + inside + "</host></zone></platform>"
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":        {"", "no <platform>"},
		"cut off":        {"<platform>\n<zone>", "line 2"},
		"other document": {"<html></html>", "no <platform>"},
		"only a master":  {host(`id="master_host" speed="1Gf"`, ""), "no hosts but the master"},
		"no speed":       {host(`id="a"`, ""), `line 2: host "a": "" is not a speed`},
		"speed of words": {host(`id="a" speed="fast"`, ""), `"fast" is not a speed`},
		"state":          {host(`id="a" speed="1f" pstate="1"`, ""), `power state "1" of 1`},
		"watts":          {host(`id="a" speed="1f"`, `<prop id="watt_per_state" value="many:more"/>`), `"many:more" is not idle:full`},
		"states":         {host(`id="a" speed="1f, 2f"`, `<prop id="watt_per_state" value="1:2"/>`), "has 1 states, its speed 2"},
		"twice":          {"<platform><host id='a' speed='1f'/><host id='a' speed='1f'/></platform>", "only once"},
		"radical":        {"<platform><cluster id='c' prefix='a' radical='3-1' speed='1f'/></platform>", `radical "3-1"`},
		"include":        {"<platform><include file='x'/></platform>", "<include>"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readXML(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadTreeOfXML(t *testing.T) {
	data, err := os.ReadFile("testdata/learning.xml")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "p.xml.gz")
	if err := os.WriteFile(packed, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"testdata/learning.xml", packed} {
		if tree, err := ReadTree(path); err != nil || tree.Cores != 4 || tree.Reference != 4.2 {
			t.Errorf("%s: got %+v, %v", path, tree, err)
		}
	}
}

// compareNames is a total order.
func TestCompareNames(t *testing.T) {
	if compareNames("cor_9", "cor_10") >= 0 || compareNames("a2b", "a02b") == 0 || compareNames("a", "a1") >= 0 {
		t.Error("numbers are not compared by value")
	}
	name := rapid.StringMatching(`[ab]{0,2}[0-9]{0,3}[ab]?[0-9]?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if ab, ba := compareNames(a, b), compareNames(b, a); ab < 0 != (ba > 0) || (ab == 0) != (a == b) {
			t.Fatalf("%q and %q: %d and %d", a, b, ab, ba)
		}
		if compareNames(a, b) < 0 && compareNames(b, c) < 0 && compareNames(a, c) >= 0 {
			t.Fatalf("%q < %q < %q, not the first before the last", a, b, c)
		}
	})
}

// The reference speeds equal NumPy's mean over all cores bit by bit.
func TestReferenceBits(t *testing.T) {
	for name, want := range map[string]float64{
		"learning": 0x1.0cccccccccccdp+2,
		"gaia":     0x1.76e44c50a0641p+3,
		"ricc":     0x1.770a3d70a3d71p+3,
		"mc2":      0x1.06c1bd299cf96p+4,
		"mini":     0x1.65cf29bf68c35p+3,
	} {
		tree, err := Example(name)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Reference != want {
			t.Errorf("%s: got %x, want %x", name, tree.Reference, want)
		}
	}
}

func FuzzReadXML(f *testing.F) {
	f.Add(smallXML)
	f.Add(`<platform><cluster id="c" radical="0-3" speed="1Gf"/></platform>`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "radical") > 0 && len(text) > 2000 {
			return
		}
		hosts, err := readXML(strings.NewReader(text))
		if err != nil {
			return
		}
		tree, err := HostTree(hosts)
		if err != nil {
			t.Fatal(err)
		}
		checkTree(t, tree)
	})
}
