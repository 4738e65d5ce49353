package platform

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
)

var kinds = []string{"k80", "p100", "v100"}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want string // of the cluster, or a part of the error when it starts with "!"
	}{
		"Gavel's simulated cluster": {"v100=36,p100=36,k80=36", "k80=36,p100=36,v100=36"},
		"case and blanks":           {" V100 = 4 , k80=2", "k80=2,v100=4"},
		"none of a kind":            {"v100=2,p100=0,k80=4", "k80=4,v100=2"},
		"none at all":               {"v100=0", "!no accelerator"},
		"empty":                     {"", "!want a kind and its number"},
		"no number":                 {"v100", `!"v100": want a kind and its number`},
		"unknown":                   {"v10=3", `!"v10" is not known, did you mean v100 or`},
		"twice":                     {"v100=1,V100=2", "!v100 is there twice"},
		"negative":                  {"v100=-1", `!"-1" accelerators of kind v100`},
		"fraction":                  {"v100=1.5", "!want a whole number"},
		"absurd":                    {"v100=99999999999", "!want a whole number up to 1000000"},
		"all problems at once":      {"v100=x,h1=2", `!did you mean`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(test.text, kinds)
			if part, bad := strings.CutPrefix(test.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("got %v, %v, want one line with %q", c, err, part)
				}
				return
			}
			if err != nil || c.String() != test.want {
				t.Fatalf("got %v, %v, want %s", c, err, test.want)
			}
			for _, a := range c {
				if a.PerServer != 1 || !math.IsNaN(a.USDHour) || !(a.Watts > 0) {
					t.Errorf("%+v: want 1 a server, no price and the power of a known kind", a)
				}
			}
		})
	}
}

func TestServers(t *testing.T) {
	c, err := Parse("v100=10,k80=8", nil)
	if err != nil {
		t.Fatal(err)
	}
	in4, err := c.InServers("4")
	if err != nil {
		t.Fatal(err)
	}
	if k, v := in4[0].PerServer, in4[1].PerServer; k != 4 || v != 4 {
		t.Errorf("8 and 10 accelerators in fours: got %d and %d a server, want 4", k, v)
	}
	if c[0].PerServer != 1 || in4.Total() != 18 {
		t.Errorf("the first cluster changed, or accelerators were lost: %+v, %+v", c, in4)
	}
	mixed, err := in4.InServers("v100=8")
	if err != nil || mixed[0].PerServer != 4 || mixed[1].PerServer != 8 {
		t.Errorf("by kind: got %+v, %v; want k80 in fours and v100 in eights", mixed, err)
	}
	for _, wrong := range []string{"", "0", "-1", "x", "v100", "v100=", "v100=0", "4,8", "t4=8", "v100=8,4"} {
		if got, err := c.InServers(wrong); err == nil {
			t.Errorf("%q: got %+v, want an error", wrong, got)
		}
	}
}

func TestWhatIsPrintedIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.MapOfN(rapid.SampledFrom(kinds), rapid.IntRange(1, maxCount), 1, 3).Draw(t, "counts")
		var c Cluster
		for name, n := range counts {
			c = append(c, accelerators{DeviceType: schedule.DeviceType{Name: name, Count: n}})
		}
		got, err := Parse(c.String(), kinds)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range got {
			if counts[a.Name] != a.Count {
				t.Fatalf("%s: got %d, want %d", a.Name, a.Count, counts[a.Name])
			}
		}
		if len(got) != len(counts) {
			t.Fatalf("got %v of %v", got, counts)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("v100=36,p100=36,k80=36")
	f.Add("=,=,")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse(s, kinds)
		if err == nil && (c.Total() < 1 || len(c) > 3) {
			t.Errorf("%q: got %v", s, c)
		}
	})
}

// Total returns the number of accelerators of all kinds.
func (c Cluster) Total() int {
	n := 0
	for _, a := range c {
		n += a.Count
	}
	return n
}

// String returns the cluster in the format of Parse.
func (c Cluster) String() string {
	parts := make([]string, len(c))
	for i, a := range c {
		parts[i] = fmt.Sprintf("%s=%d", a.Name, a.Count)
	}
	return strings.Join(parts, ",")
}
