package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/swf"
)

// queueFlags holds the flags that define the simulation, without the policy.
type queueFlags struct {
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

func (f *queueFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.trace, "trace", "", "jobs of a `FILE` in the Standard Workload Format, which may be compressed by gzip")
	fs.IntVar(&f.procs, "procs", 0, "processors of the machine (default: what the trace says; 128 for generated jobs)")
	fs.StringVar(&f.generate, "generate", "", "draw jobs: lublin (the default when nothing else says which jobs)")
	fs.IntVar(&f.count, "jobs-count", defaultQueueJobs, "so many generated jobs")
	fs.Float64Var(&f.load, "load", defaultQueueLoad, "of generated jobs: share of the machine that they ask for, 0 as the model has it")
	fs.Float64Var(&f.overestimate, "overestimate", defaultQueueOverestimate, "of generated jobs: requested by run time at most, 0 exact")
	fs.StringVar(&f.options, "options", "", "options `FILE` of HDeepRM (JSON)")
	fs.StringArrayVar(&f.set, "set", nil, "change an option, `KEY=VALUE` such as pybatsim.agent.hidden=64; may be repeated")
	fs.StringVar(&f.platform, "platform", "", "unequal cores: HDeepRM's JSON, Batsim's XML, or learning|mini|das2|gaia|mc2|pik|ricc")
	fs.StringVar(&f.workload, "workload", "", "jobs for the platform: Batsim's JSON, or a trace (SWF)")
	fs.StringVar(&f.custom, "custom-workload", "", "Batsim's JSON whose jobs do what they ask for (hdeeprm-launch -cw)")
	fs.StringVar(&f.placement, "placement", "", "on a platform, where an order's jobs run, see --policies (default best)")
	fs.StringVar(&f.objective, "objective", "", "what agents learn and placements aim for: makespan, avg_job_slowdown, energy_consumption, …")
	fs.StringVar(&f.observation, "observation", "", "what agents see: normal|small|minimal")
	fs.Float64Var(&f.sensitivity, "queue-sensitivity", 0, "relative change of the queue that agents see as the largest (default 0.05)")
	fs.BoolVar(&f.void, "void", false, "agents may also do nothing")
	fs.BoolVar(&f.asPublished, "as-published", false, "simulate as RLScheduler's published code does")
	fs.BoolVar(&f.compat, "compat", false, "with HDeepRM's mistakes")
}

// normalizeQueue also accepts the flag names of HDeepRM's programs.
func normalizeQueue(fs *pflag.FlagSet, name string) pflag.NormalizedName {
	n := normalize(fs, name)
	if now, ok := map[pflag.NormalizedName]pflag.NormalizedName{"customworkload": "custom-workload", "in-model": "inmodel", "out-model": "outmodel",
		"nbruns": "runs", "nb-runs": "runs", "nb-jobs": "jobs-count", "nb-resources": "procs", "workload-file-path": "workload",
		"platform-file-path": "platform", "policy-pair": "policy", "listen": "batsim-endpoint", "connect": "serve-batsim"}[n]; ok {
		return now
	}
	return n
}

// onPlatform reports whether heterogeneous cores are simulated.
func (f *queueFlags) onPlatform() bool { return f.options != "" || f.platform != "" }

// only rejects the named flags if they are set, since they do not apply in the given context.
func (f *queueFlags) only(cmd *cobra.Command, where string, names ...string) error {
	var errs []error
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			errs = append(errs, fmt.Errorf("--%s says nothing %s", n, where))
		}
	}
	return errors.Join(errs...)
}

func (f *queueFlags) conflicts(cmd *cobra.Command) error {
	var errs []error
	if f.generate != "" && f.generate != "lublin" {
		errs = append(errs, fmt.Errorf("--generate %q: want lublin", f.generate))
	}
	if f.trace != "" || f.workload != "" || f.custom != "" || f.options != "" && f.generate == "" {
		errs = append(errs, f.only(cmd, "where jobs are read from a file", "generate", "jobs-count", "load", "overestimate"))
	}
	if f.onPlatform() {
		errs = append(errs, f.only(cmd, "on a platform", "procs", "as-published"))
		if f.trace != "" && f.workload != "" {
			errs = append(errs, errors.New("--trace and --workload are both the jobs: want one of them"))
		}
	} else {
		errs = append(errs, f.only(cmd, "without --platform or --options", "workload", "custom-workload", "placement", "objective", "observation",
			"queue-sensitivity", "void", "set", "compat"))
	}
	if cmd.Flags().Changed("procs") && f.procs < 1 {
		errs = append(errs, fmt.Errorf("--procs %d: want at least 1", f.procs))
	}
	if _, _, err := sweep.ParseObjective(f.objective); err != nil {
		errs = append(errs, fmt.Errorf("--objective: %w", err))
	}
	return errors.Join(errs...)
}

// jobs reads or generates the jobs to simulate; source is the file they come from.
func (f *queueFlags) jobs(e *env, cmd *cobra.Command, seed uint64, seeded bool) (w *sweep.Workload, source string, err error) {
	if err := f.conflicts(cmd); err != nil {
		return nil, "", err
	}
	if f.onPlatform() {
		return f.onTree(e, cmd, seed, seeded)
	}
	if f.trace != "" {
		w, err = sweep.Load(inDir(e.dir, f.trace), sweep.TraceOptions{Procs: f.procs, AsPublished: f.asPublished})
		if err != nil {
			if errors.Is(err, swf.ErrNoSize) {
				err = fmt.Errorf("%w: say --procs", err)
			}
			return nil, "", fmt.Errorf("--trace: %w", err)
		}
		return w, filepath.Base(f.trace), nil
	}
	w, err = sweep.Generate(f.lublin(seed))
	return w, "", err
}

func (f *queueFlags) lublin(seed uint64) swf.Lublin {
	return swf.Lublin{Jobs: f.count, Procs: f.procs, Seed: seed, Load: f.load, Overestimate: f.overestimate}
}

// onTree prepares the simulation given by HDeepRM's options, including those set by flags.
func (f *queueFlags) onTree(e *env, cmd *cobra.Command, seed uint64, seeded bool) (*sweep.Workload, string, error) {
	set := slices.Clone(f.set)
	say := func(key, value string) { set = append(set, key+"="+value) }
	file := func(path string) string {
		if here := inDir(e.dir, path); exists(here) {
			return here
		}
		return path
	}
	if f.platform != "" {
		if name := f.platform; !exists(inDir(e.dir, name)) && filepath.Ext(name) == "" && !slices.Contains(platform.Examples(), name) {
			known := map[string]string{}
			for _, n := range platform.Examples() {
				known[n] = ""
			}
			return nil, "", fmt.Errorf("--platform %q is no file and no example: nearest known is %s; there are %s", name, nearest(name, known),
				strings.Join(platform.Examples(), ", "))
		}
		say("platform_file_path", file(f.platform))
	}
	for _, path := range []string{f.trace, f.workload} {
		if path != "" {
			say("workload_file_path", inDir(e.dir, path))
		}
	}
	if f.objective != "" {
		objective, _, err := sweep.ParseObjective(f.objective)
		if err != nil {
			return nil, "", fmt.Errorf("--objective: %w", err)
		}
		say("pybatsim.env.objective", objective.String())
	}
	if f.observation != "" {
		say("pybatsim.env.observation", f.observation)
	}
	if cmd.Flags().Changed("queue-sensitivity") {
		say("pybatsim.env.queue_sensitivity", strconv.FormatFloat(f.sensitivity, 'g', -1, 64))
	}
	if cmd.Flags().Changed("void") {
		say("pybatsim.env.actions.void", strconv.FormatBool(f.void))
	}
	if seeded {
		say("seed", strconv.FormatUint(seed, 10))
	}
	var o *hdeeprm.Options
	var err error
	if f.options != "" {
		o, err = hdeeprm.LoadOptions(inDir(e.dir, f.options), set...)
	} else {
		o, err = hdeeprm.ReadOptions(bytes.NewReader([]byte("{}")), e.dir, set...)
	}
	if err != nil {
		return nil, "", err
	}
	if o.Workload == "" && f.custom == "" {
		l := f.lublin(seed)
		if o.Jobs > 0 && !cmd.Flags().Changed("jobs-count") {
			l.Jobs = o.Jobs
		}
		w, err := sweep.GenerateOn(o, l)
		return w, "", err
	}
	launch := hdeeprm.LaunchOptions{Compat: f.compat}
	if f.custom != "" {
		launch.Custom = inDir(e.dir, f.custom)
	}
	source := filepath.Base(cmpOr(f.custom, f.workload, f.trace, o.Workload))
	w, err := sweep.Prepare(o, launch)
	return w, source, err
}

func cmpOr(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// method returns the method for a policy name; an unknown name is taken as a policy file.
func (f *queueFlags) method(e *env, w *sweep.Workload, policy, backfill string, seed uint64) (sweep.Method, error) {
	m := sweep.Method{Policy: policy, Backfill: backfill, AsPublished: f.asPublished, Compat: f.compat, Seed: seed, Placement: f.placement, Objective: f.objective}
	if sweep.KindOf(policy) == sweep.Unknown {
		if !exists(inDir(e.dir, policy)) {
			known := map[string]string{}
			for _, n := range sweep.Policies(w.Tree != nil) {
				known[n] = ""
			}
			return m, fmt.Errorf("policy %q is no policy and no file: nearest known is %s; optimize simulate queue --policies lists them", policy, nearest(policy, known))
		}
		var err error
		if m.Agent, err = sweep.LoadAgent(inDir(e.dir, policy)); err != nil {
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
