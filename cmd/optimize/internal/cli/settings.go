package cli

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// kind is the syntax of a setting.
type kind int

const (
	text kind = iota
	number
	whole
	length // a duration: 90m, 2h30m, 5d, or a number of seconds
	list
	lines  // texts, which may contain commas; as a flag repeatable
	table  // text → text; as a flag NAME=TEXT, repeatable
	toggle // true or false; true for a flag without a value
)

// setting is an option that can be set by flag, environment variable (OPTIMIZE_SECTION_KEY) or file (section.key), in
// this order of precedence, and has a default.
type setting struct {
	key   string   // section.key in the file
	also  []string // older keys that are still accepted
	flag  string   // empty: no flag
	kind  kind
	value string // default, as text
	help  string
}

// settings is the complete configuration, from which documentation, flags, environment variables and file keys are
// derived.
var settings = []setting{
	{key: "sla.time_max", flag: "deadline", kind: length, help: "finish within `DUR`, e.g. 90m (seconds if a plain number)"},
	{key: "sla.cost_max", flag: "budget", kind: number, help: "spend at most `USD`"},
	{key: "sla.throughput_min", flag: "min-throughput", kind: number, help: "throughput of at least `X` samples/s"},
	{key: "sla.memory_max", flag: "max-memory", kind: number, help: "peak memory of at most `GiB`"},
	{key: "sla.gpu_util_min", flag: "min-gpu-util", kind: number, help: "mean GPU utilization of at least `%`"},
	{key: "sla.cpu_util_min", flag: "min-cpu-util", kind: number, help: "mean utilization of the allocated CPUs of at least `%`"},
	{key: "multi_objective.prefer", flag: "prefer", kind: text, help: "time|cost|resource|balanced, or weights time=0.6,cost=0.3,resource=0.1"},
	{key: "resource.gpus", flag: "gpus", kind: text, help: "GPUs that may be used, `A:B` (default: those of this machine)"},
	{key: "resource.cpus", flag: "cpus", kind: text, help: "CPUs that may be used, `A:B`"},
	{key: "resource.memory", flag: "memory", kind: text, help: "memory that may be used, `A:B` GiB; B is enforced"},
	{key: "resource.batch_size", flag: "batch-size", kind: text, help: "batch sizes that may be tried, `A:B`: by an argument of the script or OPTIMIZER_BATCH_SIZE; changes the result of the training"},
	{key: "resource.num_workers", flag: "num-workers", kind: text, help: "loader workers that may be tried if the training waits for data, `A:B`; N: that number from the start"},
	{key: "resource.power_limit", flag: "power-limit", kind: text, help: "power limits of the GPUs that may be set, `A:B` W: measured, chosen by preference, restored at the end (requires root)"},
	{key: "resource.energy_budget", flag: "energy-budget", kind: number, help: "energy of the GPUs, `kWh`, by which the power limit is chosen"},
	{key: "resource.epochs", flag: "epochs", kind: whole, help: "epochs of the whole training, passed to the script"},
	{key: "resource.steps", flag: "steps", kind: whole, help: "steps of the whole training, if the script does not report them"},
	{key: "resource.dataset", flag: "dataset", kind: text, help: "data set `PATH`, passed to the script"},
	{key: "resource.seed", flag: "seed", kind: whole, help: "random seed, passed to the script"},
	{key: "rl.planner", flag: "planner", kind: text, value: "model", help: "planner: model|morl|bandit|rules|static"},
	{key: "rl.agent", flag: "agent", kind: text, help: "agent `FILE` of the morl planner, from optimize pretrain (default: embedded)"},
	{key: "rl.baseline_samples", flag: "baseline-samples", kind: whole, help: "maximum number of probes (default 4; -1: none)"},
	{key: "rl.baseline_ratio", flag: "baseline-ratio", kind: number, help: "maximum share of probes in the predicted cost of the job (default 0.10)"},
	{key: "rl.epoch_adjustment_frequency", flag: "epoch-adjustment-frequency", kind: whole, help: "epochs between two adaptations (default 5)"},
	{key: "cost.rates", flag: "rates", kind: text, help: "`FILE` with the prices of the machine"},
	{key: "cost.instance", flag: "instance", kind: text, help: "pay for a whole instance: `CLOUD:TYPE[:spot]`"},
	{key: "cost.gpu_hour", also: []string{"resource.cost_per_gpu_hour"}, flag: "gpu-hour", kind: number, help: "price in `USD` per GPU-hour"},
	{key: "cost.cpu_hour", also: []string{"resource.cost_per_cpu_hour"}, flag: "cpu-hour", kind: number, help: "price in `USD` per CPU-hour"},
	{key: "cost.gb_hour", also: []string{"resource.cost_per_gb_hour"}, flag: "gib-hour", kind: number, help: "price in `USD` per GiB-hour of memory"},
	{key: "cost.billing_hour", flag: "billing-hour", kind: number, help: "`USD` per hour of a billing unit of the engine (Slurm: TRESBillingWeights of the partition)"},
	{key: "monitor.log", flag: "log", kind: text, help: "training log `FILE` (default: $OPTIMIZER_LOG, else a table written by the script)"},
	{key: "monitor.log_format", flag: "log-format", kind: text, help: "format of the log (default: by its content)"},
	{key: "monitor.columns", kind: table, help: "further names of log columns, NAME: KNOWN_NAME"},
	{key: "monitor.progress_pattern", flag: "progress-pattern", kind: text, help: "`REGEXP` for progress on stdout, groups epoch, total_epochs, step, total_steps, loss, accuracy"},
	{key: "monitor.interval", flag: "interval", kind: length, help: "sampling interval (default 1s)"},
	{key: "monitor.observe", flag: "observe", kind: text, value: "auto", help: "observer inside Python trainings: auto|off"},
	{key: "monitor.pty", flag: "pty", kind: toggle, help: "run the job on a pseudo-terminal, for programs other than Python that buffer their output in a pipe"},
	{key: "monitor.notify", flag: "notify", kind: lines, help: "send messages on plan, limit at risk or missed, failure and end to `URL|CMD`: a webhook, Slack, mailto:ADDRESS, or a command with JSON on its input (repeatable)"},
	{key: "monitor.notify_link", flag: "notify-link", kind: text, help: "`URL` of the page that shows the runs, for links in messages"},
	{key: "monitor.offline_logs", flag: "offline-logs", kind: list, help: "`FILE`s of earlier runs to learn from"},
	{key: "engine.name", flag: "engine", kind: text, value: "local", help: "where jobs run: local|slurm"},
	{key: "engine.args", flag: "engine-arg", kind: lines, help: "`OPTION` of the site, passed to sbatch: --partition=gpu, --account=x (repeatable)"},
	{key: "engine.nodes", flag: "nodes", kind: whole, help: "nodes of each job on the engine, for a distributed training (default 1); --gpus and --cpus are those of a node"},
	{key: "engine.requeue", flag: "requeue", kind: toggle, help: "in a Slurm job: requeue it when its time limit ends the run, which then resumes"},
	{key: "engine.spot_offers", flag: "spot-offers", kind: text, help: "use spot capacity under --deadline: `FILE` of offers, traces of capacity with the prices of --instance, or auto (this machine is spot capacity)"},
	{key: "engine.spot_notice", flag: "spot-notice", kind: text, value: "auto", help: "on spot capacity, `CLOUD` whose metadata service announces the end of this machine: aws|gcp|azure, CLOUD=URL, off (auto: that of --instance CLOUD:TYPE:spot)"},
	{key: "engine.resumable", flag: "resumable", kind: text, value: "auto", help: "whether the job can be stopped and resumed: auto|yes|no"},
	{key: "engine.grace", flag: "grace", kind: length, help: "time between SIGTERM and SIGKILL (default 30s)"},
	{key: "engine.max_restarts", flag: "max-restarts", kind: whole, help: "restarts after failures of a resumable job (default 5; -1: none)"},
	{key: "engine.knobs", flag: "knob", kind: table, help: "argument that carries a knob, `NAME=FLAG`: batch_size=--bs={}, resume=--resume {path} (repeatable)"},
	{key: "engine.python", flag: "python", kind: text, help: "interpreter for .py scripts (default python3 on PATH)"},
}

// older maps former names of flags to current ones.
var older = map[string]string{
	"time-max": "deadline", "cost-max": "budget", "throughput-min": "min-throughput", "memory-max": "max-memory",
	"gpu-util-min": "min-gpu-util", "cpu-util-min": "min-cpu-util", "preference": "prefer",
	"dataset-path": "dataset", "training-file": "train", "state": "state-dir", "cost-per-gpu-hour": "gpu-hour",
	"cost-per-cpu-hour": "cpu-hour", "cost-per-gb-hour": "gib-hour", "gb-hour": "gib-hour",
	"out": "output", "gpu-model": "gpu", "jobs-count": "job-count", "traces": "trace",
}

// olderOf maps former names of flags of one command, which mean something else in other commands, to current ones. Those
// of queues include the names in HDeepRM's programs.
var olderOf = map[string]map[string]string{
	"compare placement":  {"model": "agent"},
	"compare queue":      hdeeprm(map[string]string{"starts": "window-starts"}),
	"compare rounds":     {"rates": "arrival-rates", "interval": "round"},
	"compare spot":       {"zones": "zone-count"},
	"compare training":   {"jobs": "job-count"},
	"metrics":            {"interval": "every"},
	"pareto":             {"model": "from-model"},
	"predict":            {"batch": "batch-size", "train": "script"},
	"pretrain":           {"agent": "algorithm", "rate": "learning-rate", "batch": "minibatch", "every": "gradient-every", "measure": "evaluate-every"},
	"profile colocate":   {"budget": "timeout"},
	"profile place":      {"budget": "timeout"},
	"runs import":        {"format": "log-format"},
	"serve":              {"host": "hostname"},
	"simulate decision":  {"jobs": "job-count", "devices": "device-count", "kinds": "kind-count", "types": "type-count"},
	"simulate placement": {"methods": "list-methods", "model": "agent"},
	"simulate queue":     hdeeprm(map[string]string{"jobs": "jobs-out", "policies": "list-policies", "agent": "algorithm"}),
	"simulate rounds":    {"jobs": "jobs-out", "policies": "list-policies", "rate": "arrival-rate", "interval": "round"},
	"simulate spot":      {"policies": "list-policies", "zones": "zone-count"},
}

// hdeeprm adds the names of flags in HDeepRM's programs to a table of former names.
func hdeeprm(table map[string]string) map[string]string {
	maps.Copy(table, map[string]string{"customworkload": "custom-workload", "in-model": "inmodel", "out-model": "outmodel",
		"nbruns": "runs", "nb-runs": "runs", "nb-jobs": "job-count", "nb-resources": "procs", "workload-file-path": "workload",
		"platform-file-path": "platform", "policy-pair": "policy", "listen": "batsim-endpoint", "connect": "serve-batsim"})
	return table
}

// acceptFormer makes a command that is attached to the root accept former names of its flags.
func acceptFormer(cmd *cobra.Command) {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	former, ok := olderOf[path]
	if !ok && cmd.Flags().HasFlags() { // as Options did; a command without flags has those of every command
		return
	}
	cmd.Flags().SetNormalizeFunc(func(fs *pflag.FlagSet, name string) pflag.NormalizedName {
		n := Normalize(fs, name)
		if now, ok := former[string(n)]; ok {
			return pflag.NormalizedName(now)
		}
		return n
	})
}

// Normalize treats underscores as dashes and replaces former names.
func Normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if now, ok := older[name]; ok {
		name = now
	}
	return pflag.NormalizedName(name)
}

// sections maps the sections of the configuration to the headings of their flags in the help of train.
var sections = map[string]string{
	"sla": "SLA targets and preference", "multi_objective": "SLA targets and preference", "resource": "Resources and length of the training",
	"rl": "Planning", "cost": "Prices", "monitor": "Observation", "engine": "Execution",
}

// typed is a flag whose text is parsed with the other sources of its setting; its type appears in the help.
type typed struct {
	text string
	kind string
}

func (t *typed) String() string        { return t.text }
func (t *typed) Set(text string) error { t.text = text; return nil }
func (t *typed) Type() string          { return t.kind }

// AddSettings registers the flags of all settings or, if only is not nil, of those that it names; a text of only that is
// not empty replaces that of the setting.
func AddSettings(fs *pflag.FlagSet, only map[string]string) {
	for _, s := range settings {
		text, ok := only[s.flag]
		if s.flag == "" || only != nil && !ok {
			continue
		}
		text = cmp.Or(text, s.help)
		switch s.kind {
		case list:
			fs.StringSlice(s.flag, nil, text)
		case table, lines:
			fs.StringArray(s.flag, nil, text)
		case toggle:
			fs.Bool(s.flag, false, text)
		default:
			kind := map[kind]string{whole: "int", number: "float64", length: "duration"}[s.kind]
			fs.Var(&typed{text: s.value, kind: cmp.Or(kind, "string")}, s.flag, text)
		}
		if section, _, _ := strings.Cut(s.key, "."); only == nil {
			groupFlags(fs, sections[section], s.flag)
		}
	}
	if f := fs.Lookup("resumable"); f != nil {
		f.NoOptDefVal = "yes"
	}
}

// settingJSON is a setting in JSON; unknown values are null.
type settingJSON struct {
	Key      string  `json:"key"`
	Flag     *string `json:"flag"`
	Variable string  `json:"variable"`
	Default  *string `json:"default"`
	Help     string  `json:"help"`
}

// settingsJSON returns all settings for JSON.
func settingsJSON() []settingJSON {
	var out []settingJSON
	for _, s := range settings {
		j := settingJSON{Key: s.key, Variable: s.variable(), Help: strings.ReplaceAll(s.help, "`", "")}
		if s.flag != "" {
			j.Flag = &s.flag
		}
		if s.value != "" {
			j.Default = &s.value
		}
		out = append(out, j)
	}
	return out
}

// variable returns the environment variable of a setting.
func (s setting) variable() string {
	return "OPTIMIZE_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// variables lists the environment variables of all settings with their meaning, an indented line each.
func variables() string {
	var b strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&b, "  %s: %s\n", s.variable(), strings.ReplaceAll(s.help, "`", ""))
	}
	return b.String()
}

// settingFlags returns the names of the flags of all settings.
func settingFlags() []string {
	var out []string
	for _, s := range settings {
		if s.flag != "" {
			out = append(out, s.flag)
		}
	}
	return out
}
