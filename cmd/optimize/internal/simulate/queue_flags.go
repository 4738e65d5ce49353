package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/swf"
)

// queueFlags holds the flags that define the simulation, without the policy.
type queueFlags struct {
	cli.Options
	trace, generate, options, platform, workload, custom string
	procs, count                                         int
	load, overestimate                                   float64
	placement, objective, observation                    string
	sensitivity                                          float64
	void, asPublished, compat                            bool
	set                                                  []string
}

// Defaults of generated workloads.
const (
	defaultQueueJobs         = 1000
	defaultQueueLoad         = 0.9
	defaultQueueOverestimate = 5
)

func (f *queueFlags) add(o cli.Options) {
	f.Options = o
	fs := o.Flags
	fs.StringVar(&f.trace, "trace", "", "read the jobs from `FILE` in the Standard Workload Format, which may be compressed by gzip")
	fs.IntVar(&f.procs, "procs", 0, "processors of the machine (default: that of the trace; 128 for generated jobs)")
	fs.StringVar(&f.generate, "generate", "", "generate jobs: lublin (the default without other jobs)")
	fs.IntVar(&f.count, "job-count", defaultQueueJobs, "number of generated jobs")
	fs.Float64Var(&f.load, "load", defaultQueueLoad, "share of the machine requested by generated jobs, 0: that of the model")
	fs.Float64Var(&f.overestimate, "overestimate", defaultQueueOverestimate, "maximum ratio of requested to run time of generated jobs, 0: exact")
	fs.StringVar(&f.options, "options", "", "options `FILE` of HDeepRM (JSON)")
	fs.StringArrayVar(&f.set, "set", nil, "set an option, `KEY=VALUE` such as pybatsim.agent.hidden=64; may be repeated")
	fs.StringVar(&f.platform, "platform", "", "heterogeneous cores: HDeepRM's JSON, Batsim's XML, or learning|mini|das2|gaia|mc2|pik|ricc")
	fs.StringVar(&f.workload, "workload", "", "jobs for the platform: Batsim's JSON, or a trace (SWF)")
	fs.StringVar(&f.custom, "custom-workload", "", "Batsim's JSON whose jobs run for their requested time (hdeeprm-launch -cw)")
	fs.StringVar(&f.placement, "placement", "", "on a platform: placement of the jobs of an order, see --list-policies (default best)")
	fs.StringVar(&f.objective, "objective", "", "objective of agents and placements: makespan, avg_job_slowdown, energy_consumption, …")
	fs.StringVar(&f.observation, "observation", "", "observation of agents: normal|small|minimal")
	fs.Float64Var(&f.sensitivity, "queue-sensitivity", 0, "relative change of the queue that saturates the observation of agents (default 0.05)")
	fs.BoolVar(&f.void, "void", false, "allow agents to do nothing")
	fs.BoolVar(&f.asPublished, "as-published", false, "simulate as RLScheduler's published code does")
	fs.BoolVar(&f.compat, "compat", false, "reproduce HDeepRM's errors")
}

// onPlatform reports whether heterogeneous cores are simulated.
func (f *queueFlags) onPlatform() bool { return f.options != "" || f.platform != "" }

// workloadRules returns the flags that cannot be combined.
func (f *queueFlags) workloadRules() []cli.Rule {
	file := ""
	for _, given := range []struct {
		flag string
		set  bool
	}{{"--trace", f.trace != ""}, {"--workload", f.workload != ""}, {"--custom-workload", f.custom != ""}, {"--options", f.options != "" && f.generate == ""}} {
		if given.set && file == "" {
			file = given.flag
		}
	}
	return []cli.Rule{
		{If: file != "", Flags: "generate job-count load overestimate", Conflict: file, Reason: "its jobs are not generated"},
		{If: f.onPlatform(), Flags: "procs as-published", Conflict: "--platform or --options"},
		{If: f.onPlatform() && f.trace != "", Flags: "workload", Conflict: "--trace", Reason: "both contain the jobs"},
		{If: !f.onPlatform(), Flags: "workload custom-workload placement objective observation queue-sensitivity void set compat", Requires: "--platform or --options"},
	}
}

// jobs reads or generates the jobs to simulate; source is the file they come from.
func (f *queueFlags) jobs(seed uint64, seeded bool) (w *sweep.Workload, source string, err error) {
	errs := []error{f.Check(f.workloadRules()...), f.Want("procs", f.procs >= 1, "at least 1")}
	if f.generate != "" && f.generate != "lublin" {
		errs = append(errs, fmt.Errorf("--generate %q: want lublin", f.generate))
	}
	if _, _, err := sweep.ParseObjective(f.objective); err != nil {
		errs = append(errs, fmt.Errorf("--objective: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, "", err
	}
	switch {
	case f.onPlatform():
		return f.platformWorkload(seed, seeded)
	case f.trace == "":
		w, err = sweep.Generate(f.lublin(seed))
		return w, "", err
	}
	w, err = sweep.Load(f.Path(f.trace), sweep.TraceOptions{Procs: f.procs, AsPublished: f.asPublished})
	if errors.Is(err, swf.ErrNoSize) {
		err = fmt.Errorf("%w: give --procs", err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("--trace: %w", err)
	}
	return w, filepath.Base(f.trace), nil
}

func (f *queueFlags) lublin(seed uint64) swf.Lublin {
	return swf.Lublin{Jobs: f.count, Procs: f.procs, Seed: seed, Load: f.load, Overestimate: f.overestimate}
}

// existing returns the path of a file if it exists, otherwise the name, which may be that of an example.
func (f *queueFlags) existing(name string) string {
	if path := f.Path(name); cli.Exists(path) {
		return path
	}
	return name
}

// platformOptions returns HDeepRM's options that are set by flags, as KEY=VALUE.
func (f *queueFlags) platformOptions(seed uint64, seeded bool) ([]string, error) {
	out := slices.Clone(f.set)
	set := func(given bool, key, value string) {
		if given {
			out = append(out, key+"="+value)
		}
	}
	if name := f.platform; name != "" {
		if !cli.Exists(f.Path(name)) && filepath.Ext(name) == "" && !slices.Contains(platform.Examples(), name) {
			return nil, fmt.Errorf("--platform %q is neither a file nor an example: nearest known is %s; there are %s", name, cli.Nearest(name, platform.Examples()),
				strings.Join(platform.Examples(), ", "))
		}
		set(true, "platform_file_path", f.existing(name))
	}
	set(f.trace != "", "workload_file_path", f.Path(f.trace))
	set(f.workload != "", "workload_file_path", f.Path(f.workload))
	if f.objective != "" {
		objective, _, err := sweep.ParseObjective(f.objective)
		if err != nil {
			return nil, fmt.Errorf("--objective: %w", err)
		}
		set(true, "pybatsim.env.objective", objective.String())
	}
	set(f.observation != "", "pybatsim.env.observation", f.observation)
	set(f.Changed("queue-sensitivity"), "pybatsim.env.queue_sensitivity", strconv.FormatFloat(f.sensitivity, 'g', -1, 64))
	set(f.Changed("void"), "pybatsim.env.actions.void", strconv.FormatBool(f.void))
	set(seeded, "seed", strconv.FormatUint(seed, 10))
	return out, nil
}

// platformWorkload prepares the simulation given by HDeepRM's options, including those set by flags.
func (f *queueFlags) platformWorkload(seed uint64, seeded bool) (*sweep.Workload, string, error) {
	set, err := f.platformOptions(seed, seeded)
	if err != nil {
		return nil, "", err
	}
	var o *hdeeprm.Options
	if f.options != "" {
		o, err = hdeeprm.LoadOptions(f.Path(f.options), set...)
	} else {
		o, err = hdeeprm.ReadOptions(strings.NewReader("{}"), f.Dir, set...)
	}
	if err != nil {
		return nil, "", err
	}
	if o.Workload == "" && f.custom == "" {
		l := f.lublin(seed)
		if o.Jobs > 0 && !f.Changed("job-count") {
			l.Jobs = o.Jobs
		}
		w, err := sweep.GenerateOn(o, l)
		return w, "", err
	}
	launch := hdeeprm.LaunchOptions{Compat: f.compat}
	if f.custom != "" {
		launch.Custom = f.Path(f.custom)
	}
	w, err := sweep.Prepare(o, launch)
	return w, filepath.Base(cmp.Or(f.custom, f.workload, f.trace, o.Workload)), err
}

// method returns the method for a policy name; an unknown name is taken as a policy file.
func (f *queueFlags) method(w *sweep.Workload, policy, backfill string, seed uint64) (sweep.Method, error) {
	m := sweep.Method{Policy: policy, Backfill: backfill, AsPublished: f.asPublished, Compat: f.compat, Seed: seed, Placement: f.placement, Objective: f.objective}
	if sweep.KindOf(policy) == sweep.Unknown {
		if !cli.Exists(f.Path(policy)) {
			return m, fmt.Errorf("policy %q is neither a policy nor a file: nearest known is %s; optimize simulate queue --list-policies lists them", policy,
				cli.Nearest(policy, sweep.Policies(w.Tree != nil)))
		}
		var err error
		if m.Agent, err = sweep.LoadAgent(f.Path(policy)); err != nil {
			return m, fmt.Errorf("policy: %w", err)
		}
	}
	return m, m.Settle(w)
}

// defaultPolicy is the policy used if none is given.
const defaultPolicy = "saf"

// parseQueueWindow parses "START:LENGTH".
func parseQueueWindow(text string) (sweep.Window, error) {
	if text == "" {
		return sweep.Window{}, nil
	}
	a, b, ok := strings.Cut(text, ":")
	start, err1 := strconv.Atoi(a)
	length, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || start < 0 || length < 1 || start+length < length {
		return sweep.Window{}, fmt.Errorf("--window %q: want START:LENGTH, the number of the first job from 0, and how many", text)
	}
	return sweep.Window{Start: start, Length: length}, nil
}

// reasons formats the reasons for which jobs were dropped, with counts.
func reasons(dropped map[string]int) string {
	var out []string
	for _, r := range slices.Sorted(maps.Keys(dropped)) {
		out = append(out, fmt.Sprintf("%s (%d)", r, dropped[r]))
	}
	return strings.Join(out, ", ")
}
