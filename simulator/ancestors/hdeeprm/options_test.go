package hdeeprm

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func readOptions(text string, set ...string) (*Options, error) {
	return ReadOptions(strings.NewReader(text), "/data", set...)
}

// everyOption sets every option of HDeepRM to a value other than its zero value.
const everyOption = `{
  "seed": 19021285, "nb_resources": 4, "nb_jobs": 2, "workload_file_path": "w.swf", "platform_file_path": "../p/learning.json",
  "pybatsim": {
    "seed": 19021285, "log_level": "DEBUG",
    "env": {
      "objective": "edp",
      "actions": {"selection": [{"shortest": ["high_gflops", "high_mem_bw", "low_power"]}, {"first": ["high_gflops", "high_mem_bw"]}], "void": true},
      "observation": "minimal", "queue_sensitivity": 0.01
    },
    "agent": {"type": "LEARNING", "run": "test", "hidden": 16, "lr": 0.005, "gamma": 0.9, "file": "a.py",
      "input_model": "/m/in.pt", "output_model": "out.pt", "method": "a2c", "baseline": 3}
  }
}`

func TestEveryOption(t *testing.T) {
	o, err := readOptions(everyOption)
	if err != nil {
		t.Fatal(err)
	}
	want := &Options{Seed: 19021285, Resources: 4, Jobs: 2, Workload: "/data/w.swf", Platform: "/p/learning.json", LogLevel: "DEBUG",
		Objective: EnergyDelay, Actions: []Pair{{shortestJob, highGFLOPS}, {shortestJob, highMemBW}, {shortestJob, lowPower}, {firstJob, highGFLOPS}, {firstJob, highMemBW}},
		Void: true, View: Minimal, QueueSensitivity: 0.01,
		Agent: agentOptions{Learning: true, AgentConfig: AgentConfig{Method: "a2c", Hidden: 16, Rate: 0.005, Gamma: 0.9, Baseline: 3},
			File: "/data/a.py", InputModel: "/m/in.pt", OutputModel: "/data/out.pt"}}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
	s := o.Settings(true)
	if len(s.Actions) != 5 || !s.Void || s.Objective != EnergyDelay || s.View != Minimal || s.QueueSensitivity != 0.01 || s.Seed != 19021285 || !s.Compat {
		t.Errorf("settings: %+v", s)
	}
	for path, keys := range keysOf {
		for _, key := range keys {
			if key != "policy_pair" && !strings.Contains(everyOption, `"`+key+`"`) {
				t.Errorf("the test lacks %s", join(path, key))
			}
		}
	}
}

// Without options, the actions are all 36 pairs and void.
func TestNoOptions(t *testing.T) {
	o, err := readOptions(`{}`)
	if err != nil {
		t.Fatal(err)
	}
	if o.Actions != nil || !o.Void || o.View != Normal || o.Agent.Learning || o.LogLevel != "" {
		t.Errorf("got %+v", o)
	}
	s := o.Settings(false)
	e, err := NewEnvironment(example(t, "learning"), learningJobs(), Limits{}, s)
	if err != nil {
		t.Fatal(err)
	}
	if e.Actions() != 37 {
		t.Errorf("%d actions, want 37", e.Actions())
	}
}

func TestPolicyPair(t *testing.T) {
	o, err := readOptions(`{"pybatsim": {"agent": {"policy_pair": "shortest-high_flops"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.Actions, []Pair{{shortestJob, highGFLOPS}}) || o.Void || o.Agent.Learning {
		t.Errorf("got %+v", o)
	}
	if len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "high_gflops") {
		t.Errorf("warnings: %q, want what is meant by high_flops", o.Warnings)
	}
}

func TestOptionsWithMistakes(t *testing.T) {
	env := func(s string) string { return `{"pybatsim": {"env": {` + s + `}}}` }
	agent := func(s string) string { return `{"pybatsim": {"agent": {` + s + `}}}` }
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":         {"{\n\"seed\": 1,\n\"nb_jobs\" 3}", "line 3: invalid character"},
		"a list":           {`[]`, "cannot unmarshal"},
		"null":             {`null`, "want one object"},
		"two":              {`{} {}`, "nothing after it"},
		"unknown":          {`{"nb_job": 3}`, "nb_job: unknown key; the nearest is nb_jobs"},
		"unknown inside":   {env(`"objectve": "makespan"`), "pybatsim.env.objectve: unknown key; the nearest is objective"},
		"elsewhere":        {env(`"hidden": 3`), "pybatsim.env.hidden: not here: it belongs in pybatsim.agent"},
		"at the top":       {env(`"nb_jobs": 3`), "pybatsim.env.nb_jobs: not here: it belongs at the top"},
		"seed":             {`{"seed": -1}`, "seed: -1, want a number from 0 to 4.294967295e+09"},
		"half a job":       {`{"nb_jobs": 1.5}`, "nb_jobs: 1.5, want a whole number"},
		"words":            {`{"nb_jobs": "many"}`, `nb_jobs: "many", want a number`},
		"seeds":            {`{"seed": 1, "pybatsim": {"seed": 2}}`, "pybatsim.seed: 2, but seed at the top is 1"},
		"path":             {`{"workload_file_path": 3}`, "workload_file_path: 3, want a text"},
		"level":            {`{"pybatsim": {"log_level": "LOUD"}}`, `pybatsim.log_level: "LOUD"`},
		"no object":        {`{"pybatsim": []}`, "pybatsim: [], want an object"},
		"objective":        {env(`"objective": "fun"`), "makespan"},
		"observation":      {env(`"observation": "tiny"`), "minimal"},
		"sensitivity":      {env(`"queue_sensitivity": -1`), "pybatsim.env.queue_sensitivity: -1"},
		"README":           {env(`"actions": {"selection": [{"first": ["high_gflops"]}, {"smallest": [""]}], "void": false}`), `pybatsim.env.actions.selection[1]: no core policy is called ""`},
		"no such job":      {env(`"actions": {"selection": [{"longest": ["high_gflops"]}]}`), `no job policy is called "longest"`},
		"two in one":       {env(`"actions": {"selection": [{"first": ["random"], "shortest": ["random"]}]}`), "want one job policy"},
		"empty selection":  {env(`"actions": {"selection": []}`), "selection: [], want a list"},
		"no cores":         {env(`"actions": {"selection": [{"first": []}]}`), "want a list of core policies"},
		"number for cores": {env(`"actions": {"selection": [{"first": [3]}]}`), "3, want the name of a core policy"},
		"void":             {env(`"actions": {"void": "no"}`), `pybatsim.env.actions.void: "no", want true or false`},
		"type":             {agent(`"type": "GOOD"`), `want CLASSIC or LEARNING`},
		"run":              {agent(`"run": "away"`), `want train or test`},
		"gamma":            {agent(`"gamma": 1.5`), "pybatsim.agent.gamma: 1.5"},
		"method":           {agent(`"method": "dqn"`), `want reinforce or a2c`},
		"pair":             {agent(`"policy_pair": "shortest"`), "pybatsim.agent.policy_pair"},
		"pair that learns": {agent(`"type": "LEARNING", "policy_pair": "first-random"`), "is of classic agents"},
		"pair and actions": {`{"pybatsim": {"env": {"actions": {}}, "agent": {"policy_pair": "first-random"}}}`, "only one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readOptions(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	_, err := readOptions(`{"nb_jobs": -1, "sede": 3, "pybatsim": {"agent": {"run": "x"}}}`)
	for _, want := range []string{"nb_jobs", "sede", "pybatsim.agent.run"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want all mistakes, also %s", err, want)
		}
	}
}

func TestOverrides(t *testing.T) {
	o, err := readOptions(`{"seed": 1, "workload_file_path": "a.swf", "pybatsim": {"agent": {"type": "CLASSIC"}}}`,
		"seed=7", "platform_file_path=gaia", "pybatsim.agent.type=LEARNING", "pybatsim.agent.hidden=64", "pybatsim.env.objective=makespan",
		`pybatsim.env.actions.selection=[{"first": ["random"]}]`)
	if err != nil {
		t.Fatal(err)
	}
	if o.Seed != 7 || o.Workload != "/data/a.swf" || o.Platform != "gaia" || !o.Agent.Learning || o.Agent.Hidden != 64 || o.Objective != Makespan || len(o.Actions) != 1 {
		t.Errorf("got %+v", o)
	}
	for set, want := range map[string]string{"seed": "want key=value", "sede=3": "nearest is seed", "seed.x=3": "seed is no object", "pybatsim.agent.hidden=many": "want a number"} {
		if _, err := readOptions(`{"seed": 1}`, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", set, err, want)
		}
	}
}

// The published option files of HDeepRM's authors.
func TestPublishedOptions(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(published(t, "options"), "*.json"))
	if err != nil || len(paths) != 7 {
		t.Fatalf("%d option files, %v, want 7", len(paths), err)
	}
	for _, path := range paths {
		o, err := LoadOptions(path)
		if err != nil {
			t.Error(err)
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".options.json")
		got := fmt.Sprint(o.Seed, o.Resources, o.Jobs, o.Objective, o.Actions, o.Void, o.Agent.Learning)
		want := map[bool]string{true: "19021285 4 2 makespan [shortest-high_gflops shortest-high_mem_bw shortest-low_power first-high_gflops first-high_mem_bw] false true"}[name == "learning"]
		if want == "" {
			parts := strings.Split(name, "_")
			cores, jobs := map[string]string{"gaia": "2280", "mc2": "10002"}[parts[1]], map[string]string{"primer": "1000", "consequences": "100"}[parts[0]]
			want = fmt.Sprintf("20091995 %s %s avg_job_slowdown [%s] false false", cores, jobs, strings.Join(parts[2:], "_"))
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// The two examples in the documentation of version 0.1, which has different keys, with one missing quotation mark
// added.
func TestDocumentedOptions(t *testing.T) {
	const begin = `{"seed": %s, "nb_resources": 2280, "nb_jobs": 10000, "workload_file_path": "/workspace/workloads/my_workload.swf",
		"platform_file_path": "/workspace/platforms/my_platform.json", "pybatsim": {"log_level": "%s",
		"env": {"objective": "%s", "queue_sensitivity": %s}, "agent": {%s}}}`
	classic, err := readOptions(fmt.Sprintf(begin, "2009", "DEBUG", "avg_utilization", "0.05", `"policy_pair": "shortest-high_flops"`))
	if err != nil {
		t.Fatal(err)
	}
	if o := classic; o.Agent.Learning || !slices.Equal(o.Actions, []Pair{{shortestJob, highGFLOPS}}) || o.Objective != Utilization || len(o.Warnings) != 1 {
		t.Errorf("got %+v", o)
	}
	learning, err := readOptions(fmt.Sprintf(begin, "1995", "WARNING", "makespan", "0.01", `"run": "train", "hidden": 128, "lr": 0.001, "gamma": 0.99`))
	if err != nil {
		t.Fatal(err)
	}
	want := agentOptions{Learning: true, Train: true, AgentConfig: AgentConfig{Hidden: 128, Rate: 0.001, Gamma: 0.99}}
	if o := learning; o.Agent != want || !o.Void || o.Actions != nil || o.QueueSensitivity != 0.01 || o.Objective != Makespan || len(o.Warnings) != 0 {
		t.Errorf("got %+v", o)
	}
}

func FuzzReadOptions(f *testing.F) {
	f.Add(everyOption, "seed=3")
	f.Add(`{"pybatsim": {"agent": {"policy_pair": "-"}}}`, "pybatsim.agent.run=test")
	f.Fuzz(func(t *testing.T, text, set string) {
		o, err := readOptions(text, set)
		if err != nil {
			return
		}
		if err := o.Validate(); err != nil {
			t.Fatalf("read without an error, and then: %v", err)
		}
		s := o.Settings(false)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
