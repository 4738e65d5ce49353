package run

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// TestConfigValidate: every invalid setting is refused, with the name known to the user.
func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // "" means valid
	}{
		"the least":             {func(*Config) {}, ""},
		"a command":             {func(c *Config) { c.Train, c.Args = "", []string{"python3", "train.py"} }, ""},
		"nothing to train":      {func(c *Config) { c.Train = "" }, "nothing to train"},
		"negative budget":       {func(c *Config) { c.SLA.CostMaxUSD = -1 }, "budget"},
		"negative deadline":     {func(c *Config) { c.SLA.TimeMax = -time.Second }, "deadline"},
		"negative price":        {func(c *Config) { c.Rates = &cost.Rates{CPUHour: -1} }, "cpu_hour -1"},
		"price of NaN":          {func(c *Config) { c.Rates = &cost.Rates{GiBHour: cost.USD(math.NaN())} }, "gib_hour"},
		"price of nothing":      {func(c *Config) { c.Rates = &cost.Rates{} }, "all prices are 0"},
		"unknown planner":       {func(c *Config) { c.Planner = "oracle" }, `"oracle"`},
		"its choices are named": {func(c *Config) { c.Planner = "oracle" }, "model, morl, rules, static"},
		"unknown resumable":     {func(c *Config) { c.Resume = "maybe" }, `--resumable "maybe"`},
		"resumable yes":         {func(c *Config) { c.Resume = resumableYes }, ""},
		"ratio above 1":         {func(c *Config) { c.Ratio = 1.5 }, "--baseline-ratio 1.5"},
		"ratio below 0":         {func(c *Config) { c.Ratio = -0.1 }, "--baseline-ratio -0.1"},
		"ratio of NaN":          {func(c *Config) { c.Ratio = math.NaN() }, "--baseline-ratio NaN"},
		"no probes":             {func(c *Config) { c.Samples = -1 }, ""},
		"negative epochs":       {func(c *Config) { c.Epochs = -3 }, "--epochs -3"},
		"negative steps":        {func(c *Config) { c.Steps = -1 }, "--steps -1"},
		"unknown observer":      {func(c *Config) { c.Observe = "yes" }, `--observe "yes"`},
		"workers backwards":     {func(c *Config) { c.NumWorkers = "4:2" }, "--num-workers"},
		"workers":               {func(c *Config) { c.NumWorkers = "0:4" }, ""},
		"a busy interval":       {func(c *Config) { c.Interval = 49 * time.Millisecond }, "monitor.interval 49ms"},
		"the shortest interval": {func(c *Config) { c.Interval = 50 * time.Millisecond }, ""},
		"negative interval":     {func(c *Config) { c.Interval = -time.Second }, "monitor.interval"},
		"negative grace":        {func(c *Config) { c.Grace = -time.Second }, "engine.grace"},
		"bad pattern":           {func(c *Config) { c.Pattern = "epoch (" }, "--progress-pattern"},
		"good pattern":          {func(c *Config) { c.Pattern = `epoch (?P<epoch>\d+)` }, ""},
		"warning at the limit":  {func(c *Config) { c.Warn = []float64{0.5, 1} }, "sla.warn_at 1"},
		"warning at nothing":    {func(c *Config) { c.Warn = []float64{0} }, "sla.warn_at 0"},
		"warning at NaN":        {func(c *Config) { c.Warn = []float64{math.NaN()} }, "sla.warn_at NaN"},
		"no warnings":           {func(c *Config) { c.Warn = []float64{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Train: "train.py"}
			c.change(&cfg)
			err := cfg.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v: want an error with %q", err, c.want)
			}
		})
	}
}

// TestConfigListsAllProblems: one error contains all problems.
func TestConfigListsAllProblems(t *testing.T) {
	err := Config{Planner: "oracle", Resume: "maybe", Ratio: 2, Epochs: -1, Interval: time.Millisecond, Grace: -1, Pattern: "(",
		Warn: []float64{2, -1}, SLA: sla.Spec{CostMaxUSD: -1, TimeMax: -1}, Rates: &cost.Rates{GPUHour: -1, CPUHour: -1}}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"nothing to train", "budget", "deadline", "gpu_hour", "cpu_hour", "oracle", "maybe", "--baseline-ratio", "--epochs", "monitor.interval",
		"engine.grace", "--progress-pattern", "sla.warn_at 2", "sla.warn_at -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
}

// TestConfigDefaults: the zero value is a complete valid configuration, and settings of the user are kept.
func TestConfigDefaults(t *testing.T) {
	got := Config{Train: "train.py"}.WithDefaults()
	if err := got.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	if again := got.WithDefaults(); !reflect.DeepEqual(again, got) {
		t.Errorf("defaults of the defaults differ: %+v, %+v", got, again)
	}
	if got.Planner != "model" || got.Resume != resumableAuto || got.Preference == (plan.Preference{}) || got.Interval != time.Second {
		t.Errorf("%+v", got)
	}
	mine := Config{Train: "t", Samples: -1, Ratio: 0.3, Restarts: -1, Interval: 2 * time.Second, Grace: time.Second, Every: 2, Warn: []float64{},
		Planner: "rules", Resume: resumableNo, Preference: plan.Preference{Cost: 1}}
	if kept := mine.WithDefaults(); !reflect.DeepEqual(kept, mine) {
		t.Errorf("%+v became %+v", mine, kept)
	}
}

// TestColumnsAreChecked: a log column that is named after none that exists is refused before the start.
func TestColumnsAreChecked(t *testing.T) {
	for to, refused := range map[string]bool{"train_loss": false, "": false, "nosuch": true} {
		err := (&Config{Columns: map[string]string{"mine": to}}).Validate()
		if got := err != nil && strings.Contains(err.Error(), "monitor.columns"); got != refused {
			t.Errorf("%q: %v", to, err)
		}
	}
}

// TestNameOf: a run is named for its script or module, otherwise for its program.
func TestNameOf(t *testing.T) {
	for command, want := range map[string]string{
		"python train.py": "train", "bash go.sh": "go", "./fit --fast": "fit", "python -m joeynmt train config.yaml": "joeynmt", "torchrun --nproc_per_node 2 -m models.gpt.train": "train",
		"python -m torch.distributed.run ddp.py": "ddp", "python -u -m a.b -m c": "b", "mpirun -m 5 solver": "mpirun", "conda run python -m": "conda",
	} {
		if got := NameOf("", strings.Fields(command)); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	if got := NameOf("dir/train.v2.py", []string{"python", "-m", "x"}); got != "train.v2" {
		t.Errorf("script: %q", got)
	}
}
