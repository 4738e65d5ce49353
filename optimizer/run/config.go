package run

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/wording"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/resources"
	"trainopt/sla"
)

// Resumable states whether the job may be stopped and resumed.
type Resumable string

// resumableAuto decides by inspection of the script.
const (
	resumableAuto Resumable = "auto"
	resumableYes  Resumable = "yes"
	resumableNo   Resumable = "no"
)

// Config is the complete configuration of a run. It is plain data: it is stored in the run directory, so that another
// agent can continue the run.
type Config struct {
	// Train is the script; empty when Args is the whole command.
	Train string   `json:"train"`
	Args  []string `json:"args"`
	// Dir is the job's working directory; Name defaults to the base name of the script.
	Dir      string `json:"dir"`
	Name     string `json:"name"`
	Python   string `json:"python"` // interpreter for .py files; empty means python3 on PATH
	StateDir string `json:"state_dir"`
	// Shared lists state directories of other projects, whose runs are recalled too.
	Shared []string `json:"shared,omitempty"`

	SLA        sla.Spec        `json:"sla"`
	Preference plan.Preference `json:"preference"`
	// PreferenceGiven is true if the user stated the preference.
	PreferenceGiven bool        `json:"preference_given"`
	Planner         string      `json:"planner"` // a key of plan.Planners; empty: model
	Agent           string      `json:"agent"`   // agent file of the morl planner; empty: the embedded agent
	Rates           *cost.Rates `json:"rates"`   // nil: default rates of the detected GPU model

	// GPUHour, CPUHour and GiBHour replace single default rates, USD per hour; nil: the default. They cannot be
	// combined with Rates.
	GPUHour *cost.USD `json:"gpu_hour"`
	CPUHour *cost.USD `json:"cpu_hour"`
	GiBHour *cost.USD `json:"gib_hour"`

	// GPUs, CPUs, Memory and BatchSize restrict the allocations, in the form "A:B"; empty means the resources of the
	// machine.
	GPUs      string `json:"gpus"`
	CPUs      string `json:"cpus"`
	Memory    string `json:"memory"`
	BatchSize string `json:"batch_size"`
	// NumWorkers is the range of loader workers that may be tried, "A:B"; empty: the script's own number only.
	NumWorkers string `json:"num_workers"`
	// PowerLimit is the range of power limits of the GPUs that may be set, "A:B" in W; empty: they stay as they are.
	// EnergyBudgetKWh bounds the energy of the GPUs by the choice of that limit; 0: none.
	PowerLimit      string  `json:"power_limit,omitempty"`
	EnergyBudgetKWh float64 `json:"energy_budget_kwh,omitempty"`
	// Knobs maps knob names to the user's argument templates, as returned by inspect.ParseKnob.
	Knobs map[string]string `json:"knobs"`
	// Observe is "auto" or "off" for the observer inside Python trainings; empty: auto.
	Observe string `json:"observe"`
	// PTY gives the job pseudo-terminals instead of pipes, so that programs that buffer on a pipe write each line
	// immediately.
	PTY bool `json:"pty,omitempty"`

	Epochs    int    `json:"epochs"` // 0: the script's own
	Steps     int    `json:"steps"`  // 0: the script's own
	Dataset   string `json:"dataset"`
	Seed      int64  `json:"seed"`
	SeedGiven bool   `json:"seed_given"` // false: the script's own seed

	Log      string            `json:"log"`        // empty: $OPTIMIZER_LOG, else a table that the job is observed to write
	Format   string            `json:"log_format"` // empty: detected from the content
	Columns  map[string]string `json:"columns"`    // additional column aliases
	Pattern  string            `json:"pattern"`    // progress pattern for stdout
	Offline  []string          `json:"offline"`    // logs of earlier runs
	Resume   Resumable         `json:"resumable"`
	Samples  int               `json:"baseline_samples"`           // maximum number of probes; 0: as many as are worthwhile, up to 4; negative: none
	Ratio    float64           `json:"baseline_ratio"`             // share of the job's predicted cost that all probes together may spend; 0: 0.10
	Interval time.Duration     `json:"interval"`                   // sampling interval; 0: 1 s
	Every    int               `json:"epoch_adjustment_frequency"` // units of work between adaptations; 0: 5
	Grace    time.Duration     `json:"grace"`                      // SIGTERM to SIGKILL; 0: 30 s
	Restarts int               `json:"max_restarts"`               // after failures of a resumable job; negative: none; 0: 5
	Warn     []float64         `json:"warn_at"`                    // shares of a limit at which to warn; nil: 0.8, 0.95

	// Engine is where jobs run: "local" or empty is this machine, otherwise a name known to Agent.Site. EngineArgs are
	// options of the site, passed through to the engine.
	Engine     string   `json:"engine,omitempty"`
	EngineArgs []string `json:"engine_args,omitempty"`
	// Nodes is the number of nodes of each job of an engine, on each of which the training is started once; 0 means 1.
	// GPUs, CPUs and Memory are those of a node.
	Nodes int `json:"nodes,omitempty"`
	// Place is the kind of node, of those that EngineArgs allow, on which the run is; zero until one is chosen.
	Place engine.Kind `json:"place,omitzero"`
	// BillingHour is the price of one billing unit of the engine, USD per hour; 0: the rates are those of the machine.
	BillingHour cost.USD `json:"billing_hour,omitempty"`

	// Divided is true if other jobs use what this one leaves free of the machine: it then pays for its own resources only,
	// not for the whole machine.
	Divided bool `json:"divided,omitempty"`

	// Notify are the targets of messages about the run, without their secrets once stored. NotifyLink is the address of
	// the page on which runs are shown, to which /runs/ID is added, or an address that contains {run}; empty: none.
	Notify     []notify.Target `json:"notify,omitempty"`
	NotifyLink string          `json:"notify_link,omitempty"`

	// Requeue returns the enclosing Slurm job to the queue when the end of its allocation ends the run.
	Requeue bool `json:"requeue,omitempty"`

	// Spot are the machines between which the run chooses; nil: none. SpotHere is set if the only one is this machine, which
	// is spot capacity: Spot then states the prices.
	Spot     *capacity.Offers `json:"spot,omitempty"`
	SpotHere bool             `json:"spot_here,omitempty"`
	// SpotNotice is the metadata service, in the form of resources.ParseMetadata, that announces the end of this machine;
	// empty: this machine is not spot capacity.
	SpotNotice string `json:"spot_notice,omitempty"`

	// Described is the description of another machine; only plans are made for it, unless the script declares itself
	// a replay of a measured profile.
	Described *resources.Host `json:"described"`
	// Anyway is the user's consent to start and continue although no allocation meets the SLA.
	Anyway  bool `json:"anyway"`
	DryRun  bool `json:"dry_run"`
	Explain bool `json:"explain"`
	// MeasureOnly ends the run when the pace of its first allocation is measured.
	MeasureOnly bool `json:"measure_only,omitempty"`
}

// elsewhere reports whether jobs run on other machines.
func (c *Config) elsewhere() bool { return c.Engine != "" && c.Engine != "local" }

// Values of zero fields.
const (
	defaultRatio    = 0.10
	defaultSamples  = 4
	defaultInterval = time.Second
	defaultEvery    = 5
	defaultGrace    = 30 * time.Second
	defaultRestarts = 5
)

// WithDefaults returns c with zero fields replaced by their defaults.
func (c Config) WithDefaults() Config {
	c.Ratio = cmp.Or(c.Ratio, defaultRatio)
	c.Samples = cmp.Or(c.Samples, defaultSamples)
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.Every = cmp.Or(c.Every, defaultEvery)
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	c.Restarts = cmp.Or(c.Restarts, defaultRestarts)
	c.Resume = cmp.Or(c.Resume, resumableAuto)
	c.Planner = cmp.Or(c.Planner, "model")
	if c.Warn == nil {
		c.Warn = []float64{0.8, 0.95}
	}
	if c.Preference == (plan.Preference{}) {
		c.Preference, _ = plan.ParsePreference("balanced")
	}
	return c
}

// Validate returns all problems of the configuration, joined.
func (c Config) Validate() error {
	var errs wording.Problems
	errs.If(c.Train == "" && len(c.Args) == 0, "nothing to train: give --train SCRIPT, or a command after --")
	errs = append(errs, c.SLA.Validate())
	if c.Rates != nil {
		errs = append(errs, c.Rates.Validate())
	}
	price := func(name string, v cost.USD) {
		errs.If(!(v >= 0 && v < 1e6), "--%s %g: want a price in USD per hour, 0 or more", name, float64(v))
	}
	for name, v := range map[string]*cost.USD{"gpu-hour": c.GPUHour, "cpu-hour": c.CPUHour, "gb-hour": c.GiBHour} {
		if v != nil {
			price(name, *v)
		}
	}
	price("billing-hour", c.BillingHour)
	if _, ok := plan.Planners[c.Planner]; !ok && c.Planner != "" {
		names := slices.Sorted(maps.Keys(plan.Planners))
		errs.If(true, "--planner %q: unknown, nearest is %s; want one of %s", c.Planner, wording.Nearest(c.Planner, names, 1)[0], strings.Join(names, ", "))
	}
	errs.If(c.Nodes < 0 || c.Nodes > 1 && !c.elsewhere(), "--nodes %d: want 1 or more, and more than 1 only with --engine slurm", c.Nodes)
	errs.If(!slices.Contains([]Resumable{"", resumableAuto, resumableYes, resumableNo}, c.Resume), "--resumable %q: want auto, yes or no", c.Resume)
	errs.If(!(c.Ratio >= 0 && c.Ratio <= 1), "--baseline-ratio %g: want a share between 0 and 1", c.Ratio)
	errs.If(c.Restarts < -1, "--max-restarts %d: want 0 or more, or -1 for none", c.Restarts)
	errs.If(c.Epochs < 0, "--epochs %d: want a positive number", c.Epochs)
	errs.If(c.Steps < 0, "--steps %d: want a positive number", c.Steps)
	errs.If(!slices.Contains([]string{"", "auto", "off"}, c.Observe), "--observe %q: want auto or off", c.Observe)
	if c.Spot != nil && !c.SpotHere {
		errs.If(c.SLA.TimeMax <= 0, "--spot-offers requires --deadline: without one, spot capacity alone costs least")
		for _, o := range c.Spot.Zones {
			errs.If(o.Trace == "" && !c.elsewhere(), "--spot-offers: %s: without an engine, a trace states when capacity exists", o.Name)
		}
	}
	if c.SpotNotice != "" {
		_, err := resources.ParseMetadata(c.SpotNotice)
		errs.If(err != nil, "--spot-notice: %w", err)
	}
	if c.NumWorkers != "" {
		_, err := resources.ParseRange(c.NumWorkers, resources.Range{})
		errs.If(err != nil, "--num-workers: %w", err)
	}
	if c.PowerLimit != "" {
		if r, err := resources.ParseRange(c.PowerLimit, powerRange); err != nil {
			errs.If(true, "--power-limit: %w", err)
		} else if r.Min < powerRange.Min || r.Max > powerRange.Max {
			errs.If(true, "--power-limit %q: want a range within %d and %d W", c.PowerLimit, powerRange.Min, powerRange.Max)
		} else {
			errs.If(c.elsewhere(), "--power-limit: the power limits of the nodes of an engine cannot be set from here")
		}
	}
	if b := c.EnergyBudgetKWh; !(b >= 0 && b < 1e9) {
		errs.If(true, "--energy-budget %g: want a positive number of kWh", b)
	} else {
		errs.If(b > 0 && c.PowerLimit == "", "--energy-budget requires --power-limit: the power limit of the GPUs is chosen by it")
	}
	u, err := url.Parse(c.NotifyLink)
	errs.If(c.NotifyLink != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""), "--notify-link %q: want the http or https address of the page", c.NotifyLink)
	errs.If(c.Interval < 0 || c.Interval > 0 && c.Interval < 50*time.Millisecond, "monitor.interval %s: want at least 50ms", c.Interval)
	errs.If(c.Grace < 0, "engine.grace %s: want a positive duration", c.Grace)
	_, err = regexp.Compile(c.Pattern)
	errs.If(err != nil, "--progress-pattern: %w", err)
	_, err = trainlog.Open("", trainlog.TailOptions{Aliases: c.Columns})
	errs.If(err != nil, "monitor.columns: %w", errors.Unwrap(err))
	for _, w := range c.Warn {
		errs.If(!(w > 0 && w < 1), "sla.warn_at %g: want a share between 0 and 1", w)
	}
	return errors.Join(errs...)
}
