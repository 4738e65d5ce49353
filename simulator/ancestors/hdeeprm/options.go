package hdeeprm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
)

// Options is the content of an options file of HDeepRM. The comments give the keys of the file; all are optional.
type Options struct {
	Seed      int64  // seed: seed of the conversion and of the decisions, 0 … 2³²−1
	Resources int    // nb_resources: written into the workload; 0 means the cores of the platform
	Jobs      int    // nb_jobs: number of jobs of the trace; 0 means all
	Workload  string // workload_file_path: a trace (SWF), or a workload of Batsim (JSON)
	Platform  string // platform_file_path
	LogLevel  string // pybatsim.log_level, one of logLevels; without effect

	Objective        Objective // pybatsim.env.objective; default avg_job_slowdown
	Actions          []Pair    // pybatsim.env.actions.selection, in its order; nil means Table
	Void             bool      // pybatsim.env.actions.void; true if the file has no actions
	View             View      // pybatsim.env.observation
	QueueSensitivity float64   // pybatsim.env.queue_sensitivity; 0 means 0.05

	Agent agentOptions // pybatsim.agent

	// Warnings describe values of the file that are interpreted differently from their literal meaning.
	Warnings []string
}

// agentOptions are the options of the agent.
type agentOptions struct {
	Learning bool // type is LEARNING, or absent beside keys of learning agents; otherwise CLASSIC: always the first action
	Train    bool // run is train or absent; otherwise test
	// AgentConfig contains hidden, lr and gamma, and two keys that HDeepRM lacks: method and baseline.
	AgentConfig
	File                    string // file: a user-defined agent
	InputModel, OutputModel string // input_model, output_model: policy files read and written
}

// Settings returns the settings of the decisions. compat is Settings.Compat.
func (o *Options) Settings(compat bool) Settings {
	return Settings{Actions: o.Actions, Void: o.Void, Objective: o.Objective, View: o.View, QueueSensitivity: o.QueueSensitivity,
		Seed: o.Seed, Compat: compat}
}

// logLevels are Python's names of log levels.
var logLevels = []string{"", "NOTSET", "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"}

// LoadOptions reads an options file. Each element of set replaces or adds one value, as in
// "pybatsim.agent.hidden=64". Relative paths in the file refer to its directory, those in set to the working
// directory.
func LoadOptions(path string, set ...string) (*Options, error) {
	data, err := regular.ReadFile(path, regular.Settings)
	if err != nil {
		return nil, fmt.Errorf("read options: %w", err)
	}
	o, err := ReadOptions(bytes.NewReader(data), filepath.Dir(path), set...)
	if err != nil {
		return nil, fmt.Errorf("read options %s: %w", path, err)
	}
	return o, nil
}

// ReadOptions reads options from a stream; relative paths refer to dir. The error joins all problems: unknown keys
// with the most similar known key, values of a wrong type, and unknown names.
func ReadOptions(r io.Reader, dir string, set ...string) (*Options, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	top := &section{problems: new([]error)}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&top.values); err != nil {
		return nil, place(data, err)
	}
	if _, err := d.Token(); err != io.EOF || top.values == nil {
		return nil, errors.New("want one object, and nothing after it")
	}
	here := map[string]bool{} // keys whose paths are relative to the working directory
	for _, s := range set {
		key, err := override(top.values, s)
		if err != nil {
			*top.problems = append(*top.problems, err)
		}
		here[key] = true
	}
	o := &Options{}
	o.read(top)
	for key, path := range map[string]*string{"workload_file_path": &o.Workload, "platform_file_path": &o.Platform,
		"pybatsim.agent.file": &o.Agent.File, "pybatsim.agent.input_model": &o.Agent.InputModel, "pybatsim.agent.output_model": &o.Agent.OutputModel} {
		if *path != "" && !filepath.IsAbs(*path) && !here[key] {
			*path = filepath.Join(dir, *path)
		}
	}
	if err := errors.Join(*top.problems...); err != nil {
		return nil, err
	}
	return o, o.Validate()
}

// largest is the largest integer that an option may have.
const largest = 1 << 31

func (o *Options) read(top *section) {
	top.unknown()
	o.Seed = top.integer("seed", math.MaxUint32)
	o.Resources, o.Jobs = int(top.integer("nb_resources", largest)), int(top.integer("nb_jobs", largest))
	o.Workload, o.Platform = top.text("workload_file_path"), top.text("platform_file_path")
	batsim := top.inside("pybatsim")
	if o.LogLevel = batsim.text("log_level"); !slices.Contains(logLevels, strings.ToUpper(o.LogLevel)) {
		batsim.problem("log_level", "%q, want DEBUG, INFO, WARNING, ERROR or CRITICAL", o.LogLevel)
	}
	if seed := batsim.integer("seed", math.MaxUint32); batsim.values["seed"] != nil && top.values["seed"] != nil && seed != o.Seed {
		batsim.problem("seed", "%d, but seed at the top is %d", seed, o.Seed)
	} else if top.values["seed"] == nil {
		o.Seed = seed
	}
	env, agent := batsim.inside("env"), batsim.inside("agent")
	o.environment(env)
	o.agent(agent, env.values["actions"] != nil)
}

// environment reads the section of the environment: objective, observation, queue sensitivity and actions.
func (o *Options) environment(env *section) {
	var err error
	if name := env.text("objective"); name != "" {
		if o.Objective, err = parseObjective(name); err != nil {
			env.problem("objective", "%v", err)
		}
	}
	if o.View, err = parseView(env.text("observation")); err != nil {
		env.problem("observation", "%v", err)
	}
	o.QueueSensitivity = env.number("queue_sensitivity", 1e6)
	if env.values["actions"] == nil {
		o.Void = true
		return
	}
	actions := env.inside("actions")
	o.Void = actions.flag("void")
	selection, there := actions.values["selection"]
	list, ok := selection.([]any)
	if there && (!ok || len(list) == 0) {
		actions.problem("selection", `%s, want a list as [{"shortest": ["high_gflops"]}]`, show(selection))
	}
	for i, entry := range list {
		o.selected(actions, fmt.Sprintf("selection[%d]", i), entry)
	}
}

// selected adds one entry of the selection: a job policy with its core policies.
func (o *Options) selected(actions *section, key string, entry any) {
	policies, ok := entry.(map[string]any)
	if !ok || len(policies) != 1 {
		actions.problem(key, `%s, want one job policy with a list of core policies, as {"shortest": ["high_gflops"]}`, show(entry))
		return
	}
	for job, v := range policies {
		names, ok := v.([]any)
		if !ok || len(names) == 0 {
			actions.problem(key, "%s: %s, want a list of core policies", job, show(v))
		}
		for _, name := range names {
			text, ok := name.(string)
			if !ok {
				actions.problem(key, "%s: %s, want the name of a core policy", job, show(name))
				continue
			}
			pair, err := ParsePair(job + "-" + o.canonicalCorePolicy(text))
			if err != nil {
				actions.problem(key, "%v", errors.Unwrap(err))
				continue
			}
			o.Actions = append(o.Actions, pair)
		}
	}
}

// canonicalCorePolicy translates a core policy name that only HDeepRM's documentation uses.
func (o *Options) canonicalCorePolicy(core string) string {
	if core != "high_flops" {
		return core
	}
	if warning := "high_flops, as HDeepRM's documentation writes, is taken for high_gflops"; !slices.Contains(o.Warnings, warning) {
		o.Warnings = append(o.Warnings, warning)
	}
	return "high_gflops"
}

// agent reads the agent's section, including keys of old file versions.
func (o *Options) agent(agent *section, hasActions bool) {
	a := &o.Agent
	a.Hidden, a.Rate, a.Gamma = int(agent.integer("hidden", 1<<16)), agent.number("lr", 100), agent.number("gamma", 1)
	a.Method, a.Baseline = agent.text("method"), int(agent.integer("baseline", maxBaseline))
	a.File, a.InputModel, a.OutputModel = agent.text("file"), agent.text("input_model"), agent.text("output_model")
	pair := agent.text("policy_pair")
	if agent.values["gamma"] != nil && a.Gamma == 0 {
		o.Warnings = append(o.Warnings, "a gamma of 0 is taken for the default, 0.99")
	}
	if a.Method != "" && a.Method != "reinforce" && a.Method != "a2c" {
		agent.problem("method", "%q, want reinforce or a2c", a.Method)
	}
	switch run := agent.text("run"); run {
	case "train", "":
		a.Train = true
	case "test":
	default:
		agent.problem("run", "%q, want train or test", run)
	}
	switch kind := agent.text("type"); strings.ToUpper(kind) {
	case "CLASSIC":
	case "LEARNING":
		a.Learning = true
	case "": // before version 0.2, the type was a property of the agent's file
		a.Learning = pair == "" && slices.ContainsFunc([]string{"run", "hidden", "lr", "gamma", "method"}, func(key string) bool { return agent.values[key] != nil })
	default:
		agent.problem("type", "%q, want CLASSIC or LEARNING", kind)
	}
	if pair != "" {
		o.pair(agent, pair, hasActions)
	} else if !a.Learning && !hasActions {
		o.Warnings = append(o.Warnings, "a classic agent without actions takes the first of all: random jobs on random cores")
	}
}

// pair translates the policy_pair of old files into a selection of this pair.
func (o *Options) pair(agent *section, pair string, hasActions bool) {
	job, core, _ := strings.Cut(pair, "-")
	p, err := ParsePair(job + "-" + o.canonicalCorePolicy(core))
	switch {
	case hasActions:
		agent.problem("policy_pair", "%q stands beside pybatsim.env.actions; only one of them can be meant", pair)
	case o.Agent.Learning:
		agent.problem("policy_pair", "%q is of classic agents; a learning agent has pybatsim.env.actions", pair)
	case err != nil:
		agent.problem("policy_pair", "%v", err)
	default:
		o.Actions, o.Void = []Pair{p}, false
	}
}

// Validate returns all problems joined.
func (o *Options) Validate() error {
	var problems []error
	if o.Seed < 0 || o.Seed > math.MaxUint32 {
		problems = append(problems, fmt.Errorf("seed %d: want 0 to %d", o.Seed, uint32(math.MaxUint32)))
	}
	if o.Jobs < 0 || o.Resources < 0 {
		problems = append(problems, fmt.Errorf("%d jobs and %d resources: want 0 or more", o.Jobs, o.Resources))
	}
	if a := o.Agent; a.Hidden < 0 || !(a.Rate >= 0) || !(a.Gamma >= 0 && a.Gamma <= 1) {
		problems = append(problems, fmt.Errorf("agent: hidden %d, lr %v, gamma %v: want 0 or more, and gamma at most 1", a.Hidden, a.Rate, a.Gamma))
	}
	s := o.Settings(false)
	return errors.Join(append(problems, s.Validate())...)
}
