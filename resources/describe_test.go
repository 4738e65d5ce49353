package resources

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sampleHost is a commented host description that LoadHostDescription accepts.
//
//go:embed host.sample.yaml
var sampleHost string

func TestSampleHostIsValid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(path, []byte(sampleHost), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := LoadHostDescription(path)
	if err != nil {
		t.Fatal(err)
	}
	h := d.Host()
	if h.Described != "eight-gpu-node" || h.CPUs != 96 || len(h.CPUIDs) != 96 || h.Memory != 1152 || len(h.GPUs) != 8 {
		t.Errorf("%+v", h)
	}
	if g := h.GPUs[7]; g.UUID != "described-7" || g.Index != 7 || g.Memory != 40 {
		t.Errorf("last device %+v", g)
	}
	if err := h.DefaultLimits(true).Validate(h); err != nil {
		t.Error(err)
	}
	if d.Price == nil || *d.Price.GPUHour != 3.40 || d.Price.Instance != nil {
		t.Errorf("prices %+v", d.Price)
	}
}

func TestParseHostDescription(t *testing.T) {
	cases := map[string]struct {
		text string
		says []string
	}{
		"JSON":             {text: `{"name": "a", "cpus": 1.5, "memory_gib": 2, "gpus": []}`},
		"least":            {text: "name: a\ncpus: 0.5\nmemory_gib: 0.25"},
		"two kinds of GPU": {text: "name: a\ncpus: 4\nmemory_gib: 8\ngpus: [{name: x, count: 1, memory_gib: 8}, {name: y, count: 2, memory_gib: 16}]"},
		"empty":            {text: "", says: []string{"it is empty"}},
		"not YAML":         {text: "name: [", says: []string{"yaml"}},
		"a list":           {text: "- a", says: []string{"cannot unmarshal"}},
		"two documents":    {text: "name: a\ncpus: 1\nmemory_gib: 1\n---\nname: b", says: []string{"more than one document"}},
		"unknown keys":     {text: "nmae: a\ncpus: 1\nmemory: 1\ngpus:\n- cuont: 1", says: []string{`line 1: unknown key "nmae", did you mean "name"?`, `did you mean "memory_gib"?`, `line 5: unknown key "cuont", did you mean "count"?`}},
		"far from any":     {text: "zzzzzz: 1", says: []string{`unknown key "zzzzzz"`}},
		"wrong kind":       {text: "name: a\ncpus: many\nmemory_gib: 1", says: []string{"line 2"}},
		"key twice":        {text: "name: a\nname: b\ncpus: 1\nmemory_gib: 1", says: []string{"already defined"}},
		"every problem at once": {text: "cpus: -1\nmemory_gib: .nan\ngpus: [{count: 0, memory_gib: -3}]\nprice: {}",
			says: []string{"name: missing", "cpus: -1", "memory_gib: NaN", "gpus[0].name: missing", "gpus[0].count: 0", "gpus[0].memory_gib: -3", "price: none of"}},
		"too many devices": {text: "name: a\ncpus: 1\nmemory_gib: 1\ngpus: [{name: x, count: 1000000000, memory_gib: 1}]", says: []string{"gpus[0].count: 1000000000"}},
		"both prices":      {text: "name: a\ncpus: 1\nmemory_gib: 1\nprice: {instance_hour: 3, gpu_hour: 1}", says: []string{"either instance_hour or unit prices"}},
		"negative price":   {text: "name: a\ncpus: 1\nmemory_gib: 1\nprice: {instance_hour: -3}", says: []string{"price.instance_hour: -3 is not a price"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parseHostDescription([]byte(c.text))
			if len(c.says) == 0 && err != nil {
				t.Error(err)
			}
			for _, says := range c.says {
				checkSaid(t, err, says)
			}
		})
	}
}

func TestLoadHostDescriptionNamesTheFile(t *testing.T) {
	_, err := LoadHostDescription(filepath.Join(t.TempDir(), "absent.yaml"))
	checkSaid(t, err, "absent.yaml")
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#", maxDescription+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = LoadHostDescription(large)
	checkSaid(t, err, "longer than")
}

func FuzzHostDescription(f *testing.F) {
	f.Add(sampleHost)
	f.Add(`{"name": "a", "cpus": 1e9, "memory_gib": 2, "gpus": [{"name":"x","count":-1}]}`)
	f.Add("a: &a [*a]\ncpus: *a")
	f.Add("? {}\n: x\n<<: {name: b}")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseHostDescription([]byte(text))
		if err != nil {
			return
		}
		h := d.Host()
		if !(h.CPUs > 0) || !(h.Memory > 0) || len(h.GPUs) > maxDescribedGPUs || h.Described == "" {
			t.Fatalf("%q gives %+v", text, h)
		}
		if err := h.DefaultLimits(true).Validate(h); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
