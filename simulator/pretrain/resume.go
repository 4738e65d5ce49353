package pretrain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"trainopt/morl"
)

// Keys of morl.Meta.Notes.
const (
	noteSteps    = "steps"    // requested
	noteKept     = "kept"     // step of the agent in the file
	noteData     = "data"     // data of the environment
	noteCurve    = "curve"    // checkpoint only: the points measured so far, JSON
	noteEpisodes = "episodes" // checkpoint only
	noteWall     = "wall"     // checkpoint only: seconds
)

// encodeCheckpoint returns the checkpoint: the current networks and the progress of the training.
func (t *Training) encodeCheckpoint() ([]byte, error) {
	m := t.meta
	curve, err := json.Marshal(t.curve)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: curve: %w", err)
	}
	m.Notes = map[string]string{noteSteps: strconv.Itoa(t.steps), noteCurve: string(curve), noteEpisodes: strconv.Itoa(t.earlier + t.episodes),
		noteWall: "0"}
	if t.o.Now != nil {
		m.Notes[noteWall] = strconv.FormatFloat(t.wall(), 'g', -1, 64)
	}
	t.describe(&m)
	var b bytes.Buffer
	if err := morl.WriteFile(&b, m, t.agent); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return b.Bytes(), nil
}

// resume continues from an agent file and, if given, from its checkpoint.
func (t *Training) resume() error {
	meta, best, err := morl.ReadFile(bytes.NewReader(t.o.Resume))
	if err != nil {
		return err
	}
	if err := t.sameAs(meta); err != nil {
		return err
	}
	present := best
	if t.o.Checkpoint != nil {
		if present, err = t.decodeCheckpoint(meta, best); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	if err := t.restoreAgent(meta, present); err != nil {
		return err
	}
	t.resumed = best
	return nil
}

// decodeCheckpoint reads the networks and the history from a checkpoint. A checkpoint older than the agent file is ignored.
func (t *Training) decodeCheckpoint(meta morl.Meta, best morl.Agent) (morl.Agent, error) {
	at, present, err := morl.ReadFile(bytes.NewReader(t.o.Checkpoint))
	if err != nil {
		return nil, err
	}
	if at.Agent != meta.Agent || at.Env != meta.Env || at.Seed != meta.Seed || at.Notes[noteCurve] == "" ||
		!sameNetworks(at.Config, meta.Config) {
		return nil, fmt.Errorf("it is not that of this agent: %w", morl.ErrForeign)
	}
	if at.Stats.Steps < meta.Stats.Steps {
		return best, nil
	}
	return present, t.history(at.Notes)
}

// measureResumed measures the agent kept before the interruption, so that it is replaced only by one that is at least as
// good, and marks it in the curve.
func (t *Training) measureResumed() {
	m := t.world.measure(t.resumed)
	t.best, t.bestData = &m, t.o.Resume
	at := -1
	for i := range t.curve {
		if t.curve[i].Kept = t.curve[i].Steps == t.resumed.Stats().Steps; t.curve[i].Kept {
			at = i
		}
	}
	if at < 0 {
		x := t.point(&m, t.resumed.Stats().Steps, t.earlier)
		x.Kept = true
		at = len(t.curve)
		for at > 0 && t.curve[at-1].Steps > x.Steps {
			at--
		}
		t.curve = slices.Insert(t.curve, at, x)
	}
	t.bestAt = t.curve[at]
}

// sameAs fills in environment, agent and seed from the file and returns an error if the options name others.
func (t *Training) sameAs(m morl.Meta) error {
	for _, x := range []struct {
		what  string
		given *string
		has   string
	}{{"agent", &t.o.Agent, m.Agent}, {"environment", &t.o.Env, m.Env}} {
		if *x.given == "" {
			*x.given = x.has
		}
		if *x.given != x.has {
			return fmt.Errorf("it holds %s %q, and %q was asked for: %w", x.what, x.has, *x.given, morl.ErrForeign)
		}
	}
	if _, ok := worldOf(m.Env); !ok {
		return fmt.Errorf("it was trained in %q, which this program does not know: %w", m.Env, morl.ErrForeign)
	}
	if t.o.Seed != 0 && t.o.Seed != m.Seed {
		return fmt.Errorf("its seed is %d, and %d was asked for: %w", m.Seed, t.o.Seed, morl.ErrForeign)
	}
	t.o.Seed = m.Seed
	if m.Env == "training" && t.o.Jobs.Actions == 0 {
		t.o.Jobs.Actions = m.Shape.Actions
	}
	return nil
}

// history restores curve, episodes and time from the notes of a checkpoint.
func (t *Training) history(notes map[string]string) error {
	if err := json.Unmarshal([]byte(notes[noteCurve]), &t.curve); err != nil {
		return fmt.Errorf("curve: %v: %w", err, morl.ErrCorrupt)
	}
	var err error
	if t.earlier, err = strconv.Atoi(notes[noteEpisodes]); err != nil || t.earlier < 0 {
		return fmt.Errorf("episodes %q: %w", notes[noteEpisodes], morl.ErrCorrupt)
	}
	seconds, err := strconv.ParseFloat(notes[noteWall], 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return fmt.Errorf("wall %q: %w", notes[noteWall], morl.ErrCorrupt)
	}
	t.before = time.Duration(seconds * float64(time.Second))
	return nil
}

// restoreAgent creates environment and agent. Schedules of a training with a changed number of steps are scaled; the network
// shape, the environment's shape and its data must be those of the file.
func (t *Training) restoreAgent(meta morl.Meta, present morl.Agent) error {
	t.recipe, _ = recipeFor(meta.Env, meta.Agent)
	planned, err := strconv.Atoi(meta.Notes[noteSteps])
	if err != nil || planned < 1 {
		return fmt.Errorf("steps %q: %w", meta.Notes[noteSteps], morl.ErrForeign)
	}
	if t.steps = t.o.Steps; t.steps == 0 {
		t.steps = planned
	}
	if done := present.Stats().Steps; t.steps <= done {
		return fmt.Errorf("it has made %d of %d steps: ask for more", done, t.steps)
	}
	config := meta.Config
	if t.steps != planned { // schedules end with the training
		config.ExploreSteps = int(float64(config.ExploreSteps) * float64(t.steps) / float64(planned))
		config.Anneal = int(float64(config.Anneal) * float64(t.steps) / float64(planned))
	}
	if t.o.NoResets {
		config.Resets = morl.Resets{}
	}
	config = merge(config, t.o.Config)
	if !sameNetworks(config, meta.Config) {
		return fmt.Errorf("networks %s cannot become %s", describeNetworks(meta.Config), describeNetworks(config))
	}
	if err := t.o.backend(&config); err != nil {
		return err
	}
	if err := t.enter(config); err != nil {
		return err
	}
	if want, got := t.world.env.Shape(), meta.Shape; want.State != got.State || want.Actions != got.Actions || !slices.Equal(want.Objectives, got.Objectives) {
		return fmt.Errorf("it is for %d state numbers and %d actions, the environment has %d and %d: %w", got.State, got.Actions, want.State, want.Actions, morl.ErrForeign)
	}
	if was := meta.Notes[noteData]; was != t.world.data {
		return fmt.Errorf("it was trained on jobs of the %s profiles, these are the %s: %w", was, t.world.data, morl.ErrForeign)
	}
	t.meta = morl.Meta{Agent: meta.Agent, Env: meta.Env, Shape: meta.Shape, Config: config, Seed: meta.Seed}
	if t.agent, err = refill(t.meta, present); err != nil {
		return err
	}
	if err := morl.Trainable(t.agent); err != nil {
		return fmt.Errorf("%w: choose backend %s", err, Gorgonia)
	}
	return nil
}

// sameNetworks reports whether agents of both configurations have the same networks.
func sameNetworks(a, b morl.Config) bool {
	return a.Critics == b.Critics && describeNetworks(a) == describeNetworks(b)
}

// describeNetworks returns the layers of a configuration as text.
func describeNetworks(c morl.Config) string {
	text := fmt.Sprintf("of %v hidden units", c.Hidden)
	if c.Activation != "" && c.Activation != "relu" {
		text += " with " + c.Activation
	}
	if c.History > 1 {
		text += fmt.Sprintf(" over %d observations, %d units recurrent", c.History, c.Recurrent)
	}
	return text
}

// refill copies an agent into one that fills its replay before it continues to learn.
func refill(m morl.Meta, from morl.Agent) (morl.Agent, error) {
	var b bytes.Buffer
	if err := from.Save(&b); err != nil {
		return nil, err
	}
	c, done := m.Config, from.Stats().Steps
	if p, ok := from.(interface{ Preferences() [][]float32 }); ok { // each policy counts its own steps
		done /= len(p.Preferences())
	}
	warmup := cmp.Or(c.Warmup, refillSteps)
	c.Warmup = done + warmup
	a, err := morl.New(m.Agent, m.Shape, c, m.Seed)
	if err != nil {
		return nil, err
	}
	return a, a.Load(&b)
}

// refillSteps is the number of decisions that refill the replay if the configuration has no warm-up.
const refillSteps = 1000
