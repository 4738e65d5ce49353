package capacity

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"

	"trainopt/cost"
	"trainopt/internal/regular"
)

// Offer is a machine on which a training may run, at a price.
type Offer struct {
	Name  string     `json:"name"`
	Rates cost.Rates `json:"rates"`
	// EngineArgs are the options by which an engine selects the machine, in addition to those of the run.
	EngineArgs []string `json:"engine_args,omitempty"`
	// Trace is the path of a trace that states when a zone has capacity; empty if the engine is asked. StartS is the
	// time in the trace, in seconds, at the start of the run.
	Trace  string  `json:"trace,omitempty"`
	StartS float64 `json:"start_s,omitempty"`
}

// Offers are the machines on which a training with a deadline may run.
type Offers struct {
	Zones    []Offer `json:"zones"` // spot capacity
	OnDemand Offer   `json:"on_demand"`
	// ChangeoverS is the expected time of a changeover in seconds until the run has measured it; 0: unknown.
	ChangeoverS float64 `json:"changeover_s,omitempty"`
}

// offersFile is the content of a file of offers.
type offersFile struct {
	OnDemand   *offerEntry  `yaml:"on_demand"`
	Spot       []offerEntry `yaml:"spot"`
	Changeover string       `yaml:"changeover"`
}

type offerEntry struct {
	Name       string   `yaml:"name"`
	USDHour    float64  `yaml:"usd_hour"`
	EngineArgs []string `yaml:"engine_args"`
	Trace      string   `yaml:"trace"`
	Start      string   `yaml:"start"`
}

// mostZones bounds the number of zones.
const mostZones = 16

// ReadOffers reads a file of offers in YAML or JSON. Paths in it are relative to its folder; prices are dated now.
// Durations are those of Go, such as 36h. The error joins all problems.
func ReadOffers(path string, now time.Time) (Offers, error) {
	fail := func(err error) (Offers, error) { return Offers{}, fmt.Errorf("read offers %s: %w", path, err) }
	data, err := regular.ReadFile(path, regular.Settings)
	if err != nil {
		return fail(err)
	}
	var in offersFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&in); errors.Is(err, io.EOF) {
		return fail(errors.New("the file is empty; keys are on_demand, spot, changeover"))
	} else if err != nil {
		return fail(err)
	}
	var problems []error
	out := Offers{}
	out.ChangeoverS, err = seconds("changeover", in.Changeover)
	problems = append(problems, err)
	switch {
	case in.OnDemand == nil:
		problems = append(problems, errors.New("on_demand is missing: only a machine on demand can guarantee the deadline"))
	case in.OnDemand.Trace != "" || in.OnDemand.Start != "":
		problems = append(problems, errors.New("on_demand: trace and start apply to spot capacity only"))
	default:
		out.OnDemand, err = in.OnDemand.offer("on demand", path, now)
		problems = append(problems, err)
	}
	if len(in.Spot) == 0 || len(in.Spot) > mostZones {
		problems = append(problems, fmt.Errorf("spot: %d zones, want 1 to %d", len(in.Spot), mostZones))
	}
	names := map[string]bool{out.OnDemand.Name: true}
	for i, e := range in.Spot {
		o, err := e.offer(fmt.Sprintf("zone %d", i+1), path, now)
		if names[o.Name] {
			err = errors.Join(err, fmt.Errorf("name %q is used twice", o.Name))
		}
		names[o.Name] = true
		problems = append(problems, err)
		if err == nil && in.OnDemand != nil && o.Rates.Instance > out.OnDemand.Rates.Instance && out.OnDemand.Rates.Instance > 0 {
			problems = append(problems, fmt.Errorf("%s: %g USD per hour is more than the %g on demand", o.Name, e.USDHour, in.OnDemand.USDHour))
		}
		out.Zones = append(out.Zones, o)
	}
	if err := errors.Join(problems...); err != nil {
		return fail(err)
	}
	return out, nil
}

// offer converts an entry.
func (e offerEntry) offer(name, path string, now time.Time) (Offer, error) {
	o := Offer{Name: e.Name, EngineArgs: e.EngineArgs, Trace: e.Trace}
	o.Name = cmp.Or(o.Name, name)
	if o.Trace != "" && !filepath.IsAbs(o.Trace) {
		o.Trace = filepath.Join(filepath.Dir(path), o.Trace)
	}
	o.Rates = cost.Rates{Instance: cost.USD(e.USDHour), Source: o.Name + " of " + filepath.Base(path), Dated: now.Format(time.DateOnly)}
	var err error
	if !(e.USDHour > 0) {
		err = fmt.Errorf("%s: usd_hour %g, want a price above 0", o.Name, e.USDHour)
	} else if err = o.Rates.Validate(); err != nil {
		err = fmt.Errorf("%s: %w", o.Name, err)
	}
	start, wrong := seconds(o.Name+": start", e.Start)
	o.StartS = start
	return o, errors.Join(err, wrong)
}

// seconds parses a duration of at least 0; an empty text is 0.
func seconds(name, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s %q: want a duration such as 3m or 36h", name, text)
	}
	return d.Seconds(), nil
}
