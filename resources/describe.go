package resources

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gopkg.in/yaml.v3"

	"trainopt/internal/regular"
	"trainopt/internal/wording"
)

// hostDescription is the description of another machine, read from YAML or JSON.
type hostDescription struct {
	Name   string           `yaml:"name"`
	CPUs   float64          `yaml:"cpus"`
	Memory GiB              `yaml:"memory_gib"`
	GPUs   []gpuDescription `yaml:"gpus"`
	// Price is nil if the description contains no prices.
	Price *hostPrice `yaml:"price"`
}

// gpuDescription describes a number of identical devices.
type gpuDescription struct {
	Name   string `yaml:"name"`
	Count  int    `yaml:"count"`
	Memory GiB    `yaml:"memory_gib"`
}

// hostPrice contains prices in USD per hour; nil means not given. Either the whole machine or its units have prices.
type hostPrice struct {
	Instance *float64 `yaml:"instance_hour"`
	GPUHour  *float64 `yaml:"gpu_hour"`
	CPUHour  *float64 `yaml:"cpu_hour"`
	GiBHour  *float64 `yaml:"gib_hour"`
	// Source and Dated (YYYY-MM-DD) are the source and date of the prices.
	Source string `yaml:"source"`
	Dated  string `yaml:"dated"`
}

// maxDescription bounds the size of a description file in bytes.
const maxDescription = 1 << 20

// LoadHostDescription reads and validates a description file with its prices.
func LoadHostDescription(path string) (hostDescription, error) {
	f, err := regular.Open(path, regular.Settings)
	if err != nil {
		return hostDescription{}, fmt.Errorf("read host description: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDescription+1))
	if err != nil {
		return hostDescription{}, fmt.Errorf("read host description %s: %w", path, err)
	}
	d, err := parseHostDescription(data)
	if err != nil {
		return hostDescription{}, fmt.Errorf("read host description %s: %w", path, err)
	}
	return d, nil
}

// parseHostDescription parses YAML or JSON. Unknown keys are errors that suggest the most similar known key.
func parseHostDescription(data []byte) (hostDescription, error) {
	var d hostDescription
	if len(data) > maxDescription {
		return d, fmt.Errorf("longer than %d bytes", maxDescription)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return d, errors.New("it is empty")
	} else if err != nil {
		return d, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, errors.New("it holds more than one document")
	}
	if err := unknownKeys(&doc, descriptionKeys); err != nil {
		return d, err
	}
	if err := doc.Decode(&d); err != nil {
		return hostDescription{}, err
	}
	if err := d.Validate(); err != nil {
		return hostDescription{}, err
	}
	return d, nil
}

// keyTree contains the known keys of a mapping; nil below a key means a scalar.
type keyTree map[string]keyTree

var descriptionKeys = keyTree{
	"name": nil, "cpus": nil, "memory_gib": nil,
	"gpus":  {"name": nil, "count": nil, "memory_gib": nil},
	"price": {"instance_hour": nil, "gpu_hour": nil, "cpu_hour": nil, "gib_hour": nil, "source": nil, "dated": nil},
}

// unknownKeys returns an error for each key of a document that is not in known, with its line.
func unknownKeys(n *yaml.Node, known keyTree) error {
	var errs []error
	switch n.Kind {
	case yaml.DocumentNode, yaml.SequenceNode:
		for _, c := range n.Content {
			errs = append(errs, unknownKeys(c, known))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			below, ok := known[key.Value]
			if !ok {
				errs = append(errs, fmt.Errorf("line %d: unknown key %q%s", key.Line, key.Value, nearest(key.Value, known)))
				continue
			}
			if below != nil {
				errs = append(errs, unknownKeys(n.Content[i+1], below))
			}
		}
	}
	return errors.Join(errs...)
}

// nearest suggests the known key that begins with key, or else the one with the fewest edits; empty if none is
// similar.
func nearest(key string, known keyTree) string {
	if len(key) > 100 {
		return "" // longer than twice any key
	}
	best, at := "", max(2, len(key)/2)+1
	for k := range known {
		d := wording.Distance(key, k)
		if len(key) > 2 && strings.HasPrefix(k, key) {
			d = 0
		}
		if d < at || (d == at && best != "" && k < best) {
			best, at = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// maxDescribedGPUs bounds the GPUs of a described machine; the largest on the market have 16.
const maxDescribedGPUs = 1024

// Validate returns all problems of the description, joined.
func (d hostDescription) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	amount := func(name string, v, most float64) {
		if !(v > 0) || v > most {
			bad("%s: %v is not a number above 0 and up to %g", name, v, most)
		}
	}
	if strings.TrimSpace(d.Name) == "" {
		bad("name: missing")
	}
	amount("cpus", d.CPUs, maxCPUs)
	amount("memory_gib", float64(d.Memory), 1<<20)
	total := 0
	for i, g := range d.GPUs {
		at := fmt.Sprintf("gpus[%d]", i)
		if strings.TrimSpace(g.Name) == "" {
			bad("%s.name: missing", at)
		}
		if g.Count < 1 || g.Count > maxDescribedGPUs {
			bad("%s.count: %d is not between 1 and %d", at, g.Count, maxDescribedGPUs)
		} else {
			total += g.Count
		}
		amount(at+".memory_gib", float64(g.Memory), 1<<20)
	}
	if total > maxDescribedGPUs {
		bad("gpus: %d devices, at most %d are accepted", total, maxDescribedGPUs)
	}
	if p := d.Price; p != nil {
		p.validate(bad)
	}
	return errors.Join(errs...)
}

// validate reports invalid prices, missing prices, and unit prices beside an instance price.
func (p hostPrice) validate(bad func(string, ...any)) {
	given := false
	for _, c := range []struct {
		name  string
		value *float64
	}{{"gpu_hour", p.GPUHour}, {"cpu_hour", p.CPUHour}, {"gib_hour", p.GiBHour}, {"instance_hour", p.Instance}} {
		if c.value == nil {
			continue
		}
		if v := *c.value; !(v >= 0) || math.IsInf(v, 0) {
			bad("price.%s: %v is not a price", c.name, v)
		}
		if c.name == "instance_hour" && given {
			bad("price: give either instance_hour or unit prices, not both")
		}
		given = true
	}
	if !given {
		bad("price: none of instance_hour, gpu_hour, cpu_hour, gib_hour is given")
	}
}

// Host returns the described machine. Its devices have the generated UUIDs described-0, described-1, ….
func (d hostDescription) Host() Host {
	h := Host{CPUs: d.CPUs, Memory: d.Memory, Described: d.Name,
		Notes: []string{"described, not measured: " + d.Name}}
	for i := range int(d.CPUs) {
		h.CPUIDs = append(h.CPUIDs, i)
	}
	for _, g := range d.GPUs {
		for range g.Count {
			i := len(h.GPUs)
			h.GPUs = append(h.GPUs, GPU{Index: i, UUID: fmt.Sprintf("described-%d", i), Name: g.Name, Memory: g.Memory})
		}
	}
	return h
}
