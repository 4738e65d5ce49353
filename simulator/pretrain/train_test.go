package pretrain

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

// small returns the options of a training that takes one second.
func small(env, agent string) Options {
	if env == "training" {
		return Options{Env: env, Agent: agent, Steps: 300, Measure: 100, Seed: 3, Config: morl.Config{Hidden: []int{24}, Warmup: 100, Batch: 32}, Jobs: JobOptions{Count: 2}}
	}
	return Options{Env: env, Agent: agent, Steps: 1500, Measure: 500, Seed: 3, Config: morl.Config{Hidden: []int{24}, Warmup: 200, Batch: 32}, Jobs: JobOptions{Count: 3}}
}

func run(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Train(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLearnsDeepSeaTreasure checks that a seventh of the recipe's steps finds most of the front, and that the agent in
// the file has the returns stated in the result.
func TestLearnsDeepSeaTreasure(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for some seconds")
	}
	r := run(t, Options{Env: "problem:deep-sea-treasure", Agent: "conditioned", Steps: 8000, Seed: 1, Config: morl.Config{Hidden: []int{64, 64}, Every: 2}})
	if r.Hypervolume < 0.9*854.850 {
		t.Errorf("hypervolume %.1f, want at least nine tenths of 854.850", r.Hypervolume)
	}
	_, a, err := morl.ReadFile(bytes.NewReader(r.Data))
	if err != nil {
		t.Fatal(err)
	}
	p := problems.DeepSeaTreasure(problems.Convex)
	var points [][]float64
	for _, x := range morl.Front(a, p, morl.FrontOptions{}) {
		points = append(points, x.Value)
	}
	if v := pareto.Hypervolume(points, p.Reference()); v != r.Hypervolume {
		t.Errorf("the file's agent reaches %v, the result says %v", v, r.Hypervolume)
	}
	kept := 0
	for _, x := range r.Curve {
		if x.Kept {
			kept++
			if float64(x.Hypervolume) != r.Hypervolume {
				t.Errorf("the curve says %v was kept, the result says %v", x.Hypervolume, r.Hypervolume)
			}
		}
	}
	if kept != 1 {
		t.Errorf("%d agents of the curve were kept", kept)
	}
}

func TestSameSeedSameFile(t *testing.T) {
	for name, o := range map[string]Options{"problem": small("problem:deep-sea-treasure", "envelope"), "training": small("training", "conditioned"),
		"drawn weights": small("problem:fruit-tree-5", "conditioned")} {
		t.Run(name, func(t *testing.T) {
			with := func(cores int) *Result {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
				return run(t, o)
			}
			one, two := with(1), with(2)
			if !bytes.Equal(one.Data, two.Data) {
				t.Error("other bytes of the agent file on two cores")
			}
			var a, b bytes.Buffer
			if one.WriteCSV(&a) != nil || two.WriteCSV(&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("other curves on two cores:\n%s%s", a.String(), b.String())
			}
			if o.Seed++; o.Env != "training" && bytes.Equal(run(t, o).Data, one.Data) {
				t.Error("an other seed gives the same agent")
			}
		})
	}
}

// interrupted trains until n measurements have been made.
func interrupted(t *testing.T, o Options, n int) *Result {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(p Progress) {
		if p.Point != nil && p.Point.Steps >= n*o.Measure {
			cancel()
		}
	}
	r, err := Train(ctx, o)
	if !errors.Is(err, context.Canceled) || r == nil || r.Present == nil {
		t.Fatalf("interrupted: %v, result %v", err, r)
	}
	return r
}

// TestInterruptedGoesOn checks for every agent that a resumed training completes its steps and continues its curve.
func TestInterruptedGoesOn(t *testing.T) {
	for _, agent := range Agents() {
		t.Run(agent, func(t *testing.T) {
			o := small("problem:deep-sea-treasure", agent)
			broken := interrupted(t, o, 1)
			if broken.Steps < 500 || broken.Steps > 1000 || len(broken.Curve) != 1 {
				t.Fatalf("interrupted after %d steps with %d points", broken.Steps, len(broken.Curve))
			}
			r := run(t, Options{Resume: broken.Data, Checkpoint: broken.Present})
			if r.Steps != 1500 || r.Meta.Seed != 3 || r.Present != nil || len(r.Curve) < 2 || r.Curve[0].Steps != 500 {
				t.Fatalf("went on to %d steps, seed %d, curve %+v", r.Steps, r.Meta.Seed, r.Curve)
			}
			for i := range r.Curve[1:] {
				if a, b := r.Curve[i], r.Curve[i+1]; b.Steps <= a.Steps || b.Episodes < a.Episodes || b.WallS < a.WallS {
					t.Errorf("the curve goes back: %+v, %+v", a, b)
				}
			}
		})
	}
}

// TestResumedKeepsTheBetterAgent checks that a worse agent does not replace the agent kept before an interruption.
func TestResumedKeepsTheBetterAgent(t *testing.T) {
	o := small("problem:deep-sea-treasure", "conditioned")
	o.Steps = 4000
	good := run(t, o)
	// This learning rate ruins the agent.
	r := run(t, Options{Resume: good.Data, Steps: 5000, Config: morl.Config{Rate: 1, Warmup: 100}, Measure: 500})
	if r.Hypervolume != good.Hypervolume || r.Meta.Stats.Steps != good.Meta.Stats.Steps {
		t.Errorf("%v of step %d became %v of step %d", good.Hypervolume, good.Meta.Stats.Steps, r.Hypervolume, r.Meta.Stats.Steps)
	}
	last := run(t, Options{Resume: good.Data, Steps: 5000, KeepLast: true, Measure: 500})
	if last.Meta.Stats.Steps != 5000 {
		t.Errorf("asked to keep the last, it kept step %d", last.Meta.Stats.Steps)
	}
}

// TestResumedFillsItsReplayFirst checks that learning waits for the replay, because it would overfit the first
// decisions.
func TestResumedFillsItsReplayFirst(t *testing.T) {
	broken := interrupted(t, small("problem:deep-sea-treasure", "conditioned"), 1) // a warm-up of 200
	done := broken.Steps
	updates := func(steps int) int {
		r := run(t, Options{Resume: broken.Data, Checkpoint: broken.Present, Steps: steps, Measure: 10, KeepLast: true})
		return r.Meta.Stats.Updates
	}
	before := updates(done + 100)
	if _, present, err := morl.ReadFile(bytes.NewReader(broken.Present)); err != nil || present.Stats().Updates != before {
		t.Errorf("%v; %d gradient steps became %d while the replay was filled", err, present.Stats().Updates, before)
	}
	if after := updates(done + 400); after <= before {
		t.Errorf("still %d gradient steps when the replay was filled", after)
	}
}

// TestOldCheckpointIsOfNoUse: after a crash between two writes a checkpoint can be older than the agent file.
func TestOldCheckpointIsOfNoUse(t *testing.T) {
	o := small("problem:deep-sea-treasure", "conditioned")
	old := interrupted(t, o, 1)
	r := run(t, Options{Resume: run(t, o).Data, Checkpoint: old.Present, Steps: 2500, Measure: 500})
	if r.Curve[0].Steps <= old.Steps || r.Steps != 2500 {
		t.Errorf("went on from step %d to %d", r.Curve[0].Steps, r.Steps)
	}
}

func TestResumeRefuses(t *testing.T) {
	o := small("problem:deep-sea-treasure", "conditioned")
	broken := interrupted(t, o, 1)
	other := interrupted(t, small("problem:deep-sea-treasure", "envelope"), 1)
	flipped := slices.Clone(broken.Data)
	flipped[len(flipped)/2] ^= 1
	newer := slices.Clone(broken.Data)
	newer[len("optimize agent\n")] = morl.FileVersion + 1
	for name, c := range map[string]struct {
		o    Options
		want error
		says string
	}{
		"no agent file":      {Options{Resume: []byte("hello")}, morl.ErrForeign, "no agent file"},
		"empty file":         {Options{Resume: []byte{}}, morl.ErrForeign, "no agent file"},
		"damaged":            {Options{Resume: flipped}, morl.ErrCorrupt, "checksum"},
		"cut off":            {Options{Resume: broken.Data[:900]}, morl.ErrCorrupt, "ends after"},
		"newer":              {Options{Resume: newer}, morl.ErrNewer, "version 3"},
		"damaged checkpoint": {Options{Resume: broken.Data, Checkpoint: flipped}, morl.ErrCorrupt, "checkpoint"},
		"other's checkpoint": {Options{Resume: broken.Data, Checkpoint: other.Present}, morl.ErrForeign, "checkpoint"},
		"no checkpoint":      {Options{Resume: broken.Data, Checkpoint: other.Data}, morl.ErrForeign, "checkpoint"},
		"other agent":        {Options{Resume: broken.Data, Agent: "envelope"}, morl.ErrForeign, `"conditioned"`},
		"other environment":  {Options{Resume: broken.Data, Env: "training"}, morl.ErrForeign, "deep-sea-treasure"},
		"other seed":         {Options{Resume: broken.Data, Seed: 9}, morl.ErrForeign, "seed is 3"},
		"other activation":   {Options{Resume: broken.Data, Config: morl.Config{Activation: "tanh"}}, nil, "with tanh"},
		"recurrent":          {Options{Resume: broken.Data, Config: morl.Config{Recurrent: 3, History: 2}}, nil, "3 units recurrent"},
		"other networks":     {Options{Resume: broken.Data, Config: morl.Config{Hidden: []int{25}}}, nil, "hidden"},
		"nothing to do":      {Options{Resume: broken.Data, Steps: 100}, nil, "100 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prepare(c.o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v that says %q", err, c.want, c.says)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for says, change := range map[string]func(o *Options){
		`environment "problem:nowhere"`: func(o *Options) { o.Env = "problem:nowhere" },
		`agent "nobody"`:                func(o *Options) { o.Agent = "nobody" },
		"-1 steps":                      func(o *Options) { o.Steps = -1 },
		"2048":                          func(o *Options) { o.Config.Hidden = []int{1 << 20} },
		"γ":                             func(o *Options) { o.Config.Gamma = 2 },
		`activation "step"`:             func(o *Options) { o.Config.Activation = "step" },
		`backend "cuda"`:                func(o *Options) { o.Backend = "cuda" },
		"2 observations or more":        func(o *Options) { o.Config.Recurrent = 4 },
		"decides on one observation":    func(o *Options) { o.Env, o.Config.History = "training", 2 },
		"gelu is trained only as a Gorgonia graph: choose backend gorgonia": func(o *Options) { o.Config.Activation = "gelu" },
		"a recurrent layer is trained only": func(o *Options) {
			o.Backend, o.Config.Recurrent, o.Config.History = Kernels, 4, 2
		},
		"9 or 27":   func(o *Options) { o.Jobs.Actions = 10 },
		"agreement": func(o *Options) { o.Config.Resets.Mode = "evidence" },
		"one gradient step a decision": func(o *Options) {
			o.Env, o.Config.Resets.Mode, o.Config.Every = "training", "evidence", 2
		},
	} {
		o := small("problem:deep-sea-treasure", "envelope")
		change(&o)
		if _, err := Prepare(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
}

func TestEveryEnvironmentAndAgentHasARecipe(t *testing.T) {
	var problemNames []string
	for _, env := range Environments() {
		for _, agent := range Agents() {
			r, ok := recipeFor(env, agent)
			if !ok || r.Steps < 1 || r.Measure < 0 || r.Measure > 0 && r.Steps%r.Measure != 0 || r.Config.Validate() != nil {
				t.Errorf("%s, %s: recipe %+v", env, agent, r)
			}
			if _, err := Prepare(Options{Env: env, Agent: agent}); (err != nil) != (agent == "pareto" && continuous[env]) {
				t.Errorf("%s, %s: %v", env, agent, err)
			}
		}
		if p, ok := strings.CutPrefix(env, problemPrefix); ok {
			problemNames = append(problemNames, p)
		}
	}
	if len(problemNames) != len(problems.ByName) {
		t.Errorf("environments of %v, there are %d problems", problemNames, len(problems.ByName))
	}
}

// TestJobs measures agents with 27 actions and agents without critics, too.
func TestJobs(t *testing.T) {
	for name, change := range map[string]func(o *Options){"27 actions": func(o *Options) { o.Jobs.Actions = 27 }, "without critics": func(o *Options) { o.Agent = "simple" }} {
		t.Run(name, func(t *testing.T) {
			o := small("training", "conditioned")
			o.Steps, o.Measure = 200, 200
			change(&o)
			r := run(t, o)
			j := r.Jobs
			if j == nil || j.Jobs != 2 || !(j.Agent < 0 && j.Own < -0.3 && j.Own > -1.5 && j.Model < 0) {
				t.Fatalf("measured %+v", j)
			}
			if math.Abs(j.Agent-j.Model-j.OverModel) > 1e-12 || r.ExpectedUtility != j.Agent {
				t.Errorf("%+v, expected utility %v", j, r.ExpectedUtility)
			}
			if m, err := strconv.ParseFloat(r.Meta.Notes["sla_multiplier"], 64); err != nil || !(m > 0) || m == newCurriculum().Multiplier() {
				t.Errorf("the multiplier of the agreement was not adapted and kept: notes %v", r.Meta.Notes)
			}
			if want := max(9, o.Jobs.Actions); r.Meta.Shape.Actions != want || r.Meta.Notes[noteData] != "embedded" {
				t.Errorf("%d actions, notes %v", r.Meta.Shape.Actions, r.Meta.Notes)
			}
		})
	}
}

// TestChosenPoints: linear preferences can reach all points of the convex front but only the ends of the concave one.
func TestChosenPoints(t *testing.T) {
	for _, c := range []struct {
		problem string
		want    int
	}{{"deep-sea-treasure", 10}, {"deep-sea-treasure-concave", 2}} {
		front := knownFront(t, c.problem, 0.99)
		if got := linearOptima(front, denseWeights(2)); len(got) != c.want {
			t.Errorf("%d points of %d are chosen, want %d", len(got), len(front), c.want)
		}
	}
	if got := linearOptima(nil, denseWeights(2)); len(got) != 0 {
		t.Errorf("of nothing %v is chosen", got)
	}
}

// TestNoiseDoesNotKeepAnOldAgent: on jobs an earlier agent is kept only if it is better beyond chance.
func TestNoiseDoesNotKeepAnOldAgent(t *testing.T) {
	of := func(v ...float64) *measured { return &measured{Jobs: &comparison{byJob: v}} }
	for name, c := range map[string]struct {
		before, now *measured
		want        bool
	}{
		"clearly better": {of(-0.5, -0.6, -0.7, -0.5), of(-0.6, -0.7, -0.81, -0.6), true},
		"by chance":      {of(-0.5, -0.6, -0.7, -0.5), of(-0.5, -0.6, -0.7, -0.6), false},
		"equal":          {of(-0.5, -0.6), of(-0.5, -0.6), false},
		"worse":          {of(-0.9, -0.9, -0.9), of(-0.5, -0.5, -0.51), false},
		"one job":        {of(-0.1), of(-0.5), false},
	} {
		if got := earlierBetterOnJobs(c.before, c.now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestResultJSON decodes the JSON of a training with a clock, and of one interrupted before its first measurement.
func TestResultJSON(t *testing.T) {
	o := small("problem:deep-sea-treasure", "envelope")
	clock := time.Duration(0)
	o.Now = func() time.Duration { clock += time.Second; return clock }
	r := run(t, o)
	var b bytes.Buffer
	if err := r.WriteJSON(&b, "agent.bin"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema, Steps int
		Env, Agent    string
		Seed          uint64
		Front         [][]float64
		Hypervolume   float64
		Reference     []float64
		Utility       float64 `json:"expected_utility"`
		Returns       []float64
		Wall          float64 `json:"wall_s"`
		File          string
	}
	d := json.NewDecoder(&b)
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || got.Steps != 1500 || got.Env != o.Env || got.Agent != "envelope" || got.Seed != 3 || len(got.Returns) != 2 || !(got.Wall > 1) || got.File != "agent.bin" {
		t.Errorf("%+v", got)
	}
	if v := pareto.Hypervolume(got.Front, got.Reference); math.Abs(v-got.Hypervolume) > 1e-4 || got.Utility == 0 {
		t.Errorf("front of hypervolume %v, said %v; utility %v", v, got.Hypervolume, got.Utility)
	}
	// Without a measurement and a file: null, not 0.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o.Measure = 0
	empty, err := Train(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.Reset()
	if err := empty.WriteJSON(&b, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"hypervolume": null`, `"expected_utility": null`, `"file": null`, `"front": []`, `"interrupted": true`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// TestCurves checks the CSV and the HTML page of a curve, for a problem and for jobs.
func TestCurves(t *testing.T) {
	for _, env := range []string{"problem:deep-sea-treasure", "training"} {
		r := run(t, small(env, "envelope"))
		var text, html bytes.Buffer
		if err := r.WriteCSV(&text); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&text).ReadAll()
		if err != nil || len(rows) != 4 || rows[0][0] != "steps" || rows[3][0] != strconv.Itoa(r.Of) {
			t.Fatalf("%v, rows %v", err, rows)
		}
		if slices.Contains(rows[0], "utility_model") != (env == "training") {
			t.Errorf("%s: columns %v", env, rows[0])
		}
		if err := r.WriteHTML(&html); err != nil {
			t.Fatal(err)
		}
		page := html.String()
		for _, want := range []string{"<svg", "Hypervolume", "kept", "prefers-color-scheme: dark", env, r.Objectives[1]} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q in the page", env, want)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "http://", "https://", "<script", "ZgotmplZ"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: %q in the page", env, bad)
			}
		}
	}
}

// TestPointsSurviveACheckpoint checks that unknown numbers remain unknown.
func TestPointsSurviveACheckpoint(t *testing.T) {
	nan := number(math.NaN())
	p := point{Steps: 5, Episodes: 2, WallS: nan, Loss: 0.25, Returns: []number{1.5, nan}, FrontSize: 3, Hypervolume: 854.85, ExpectedUtility: -1,
		Own: nan, Model: -0.5, Kept: true}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q point
	if err := json.Unmarshal(data, &q); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(q)
	if !bytes.Equal(data, again) || !math.IsNaN(float64(q.WallS)) || q.Hypervolume != p.Hypervolume || !q.Kept {
		t.Errorf("%s became %s", data, again)
	}
}

// FuzzHistory checks that the notes of any checkpoint are either restored or rejected.
func FuzzHistory(f *testing.F) {
	f.Add(`[{"s":500,"e":3,"w":1.5,"l":null,"r":[1,null],"f":2,"h":379.3,"u":2.7,"o":null,"m":null,"k":true}]`, "3", "1.5")
	f.Add(`null`, "-1", "-2")
	f.Add(`[{}]`, "1e9", "NaN")
	f.Fuzz(func(t *testing.T, curve, episodes, wall string) {
		var tr Training
		if err := tr.history(map[string]string{noteCurve: curve, noteEpisodes: episodes, noteWall: wall}); err != nil {
			if !errors.Is(err, morl.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		r := Result{Curve: tr.curve, Objectives: []string{"a", "b"}}
		var b bytes.Buffer
		if err := errors.Join(r.WriteCSV(&b), r.WriteHTML(&b)); err != nil {
			t.Fatal(err)
		}
		if tr.before < 0 || tr.earlier < 0 {
			t.Fatalf("%v, %d episodes", tr.before, tr.earlier)
		}
	})
}

// Train trains an agent: Prepare followed by Run.
func Train(ctx context.Context, o Options) (*Result, error) {
	t, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	return t.Run(ctx)
}
