package pretrain

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"trainopt/morl"
)

// Training is a prepared training; it can be run once.
type Training struct {
	o      Options
	recipe recipe
	world  *world
	agent  morl.Agent
	meta   morl.Meta
	steps  int // total
	tick   int // decisions between reports
	from   time.Duration
	before time.Duration // time used by an interrupted training

	curve    []point
	window   []float64 // sum of the returns of the episodes since the last measurement
	ended    int       // number of those episodes
	episodes int
	earlier  int // episodes of an interrupted training

	resumed  morl.Agent // agent kept before an interruption, to be measured again
	best     *measured  // measurement of the kept agent; nil before the first
	bestData []byte
	bestAt   point
}

// Prepare validates the options, creates environment and agent, and reads the files to resume from. Every error is
// caused by the options: an invalid setting, or a file that is damaged (morl.ErrCorrupt), newer (morl.ErrNewer) or of
// something else (morl.ErrForeign).
func Prepare(o Options) (*Training, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &Training{o: o}
	var err error
	if o.Resume != nil {
		err = t.resume()
	} else {
		err = t.begin()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	t.tick = tickOf(t.recipe.Measure)
	return t, nil
}

// close releases the environment.
func (t *Training) close() {
	if t.world != nil && t.world.close != nil {
		t.world.close()
	}
}

// tickOf returns the number of decisions between reports, an integer fraction of the interval between measurements, so
// that progress is visible.
func tickOf(measure int) int {
	for n := 10; n > 1; n-- {
		if measure%n == 0 {
			return measure / n
		}
	}
	return measure
}

// enter creates the environment and sets the interval between measurements.
func (t *Training) enter(config morl.Config) error {
	var err error
	switch {
	case t.o.Measure > 0:
		t.recipe.Measure = t.o.Measure
	case t.recipe.Measure == 0:
		t.recipe.Measure = max(1, t.steps/20)
	}
	build, _ := worldOf(t.o.Env)
	t.world, err = build(&t.o, config, t.recipe)
	return err
}

// begin creates environment and agent of a new training.
func (t *Training) begin() error {
	var ok bool
	if t.recipe, ok = recipeFor(t.o.Env, t.o.Agent); !ok {
		return fmt.Errorf("environment %q: no recipe", t.o.Env)
	}
	if t.steps = t.o.Steps; t.steps == 0 {
		t.steps = t.recipe.Steps
	}
	config := scheduled(merge(t.recipe.Config, t.o.Config), t.steps)
	if t.o.NoResets {
		config.Resets = morl.Resets{}
	}
	if err := t.o.backend(&config); err != nil {
		return err
	}
	if err := t.enter(config); err != nil {
		return err
	}
	a, err := morl.New(t.o.Agent, t.world.env.Shape(), config, t.o.Seed)
	if err != nil {
		return err
	}
	if err := morl.Trainable(a); err != nil {
		return fmt.Errorf("%w: choose backend %s", err, Gorgonia)
	}
	t.agent = a
	t.meta = morl.Meta{Agent: t.o.Agent, Env: t.o.Env, Shape: a.Shape(), Config: config, Seed: t.o.Seed}
	return nil
}

// Run trains until all steps are done or ctx is cancelled. In the latter case it returns ctx's error together with a
// result, the agent kept so far.
func (t *Training) Run(ctx context.Context) (*Result, error) {
	if t.o.Now != nil {
		t.from = t.o.Now()
	}
	defer t.close()
	defer context.AfterFunc(ctx, t.close)()
	t.window = make([]float64, len(t.agent.Shape().Objectives))
	if t.resumed != nil {
		t.measureResumed()
	}
	err := morl.Train(ctx, t.agent, t.world.env, morl.TrainOptions{Steps: t.steps, Seed: t.meta.Seed, Every: t.tick, Report: t.report,
		Preferences: t.world.preferences})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r, failed := t.result(err == nil)
	if failed != nil {
		return nil, failed
	}
	return r, err
}

// report is the callback of morl.Train: it accumulates returns and measures the agent when a measurement is due.
func (t *Training) report(p morl.Progress) error {
	if n := p.Episodes - t.episodes; n > 0 {
		for i, v := range p.Return {
			t.window[i] += v * float64(n)
		}
		t.ended += n
	}
	t.episodes = p.Episodes
	if p.Steps%t.recipe.Measure == 0 || p.Steps >= t.steps {
		if err := t.measure(p); err != nil {
			return err
		}
	}
	if t.o.Progress != nil {
		now := Progress{Steps: p.Steps, Of: t.steps, Episodes: t.earlier + p.Episodes, Loss: t.agent.Stats().Loss}
		if n := len(t.curve); n > 0 {
			now.Point = &t.curve[n-1]
		}
		t.o.Progress(now)
	}
	return nil
}

// measure measures the agent, keeps it unless the earlier one is better, extends the curve, and saves agent and
// checkpoint.
func (t *Training) measure(p morl.Progress) error {
	m := t.world.measure(t.agent)
	if t.world.failed != nil && t.world.failed() != nil {
		return t.world.failed()
	}
	if t.recipe.Focus && p.Focus != nil {
		p.Focus(morl.Corners(m.reached))
	}
	x := t.point(&m, p.Steps, t.earlier+p.Episodes)
	if t.world.settle != nil {
		t.world.settle()
	}
	if t.best == nil || t.o.KeepLast || !t.world.outdoes(t.best, &m) {
		data, err := t.file(t.agent, p.Steps)
		if err != nil {
			return err
		}
		for i := range t.curve {
			t.curve[i].Kept = false
		}
		x.Kept = true
		t.best, t.bestData, t.bestAt = &m, data, x
	}
	t.curve = append(t.curve, x)
	if t.o.Save == nil {
		return nil
	}
	present, err := t.encodeCheckpoint()
	if err != nil {
		return err
	}
	return t.o.Save(t.bestData, present)
}

// point returns the point of the curve for a measurement.
func (t *Training) point(m *measured, steps, episodes int) point {
	x := point{Steps: steps, Episodes: episodes, WallS: number(t.wall()), Loss: number(t.agent.Stats().Loss), Returns: t.returns(), FrontSize: len(m.Front),
		Hypervolume: number(m.Hypervolume), ExpectedUtility: number(m.ExpectedUtility), Own: number(math.NaN()), Model: number(math.NaN())}
	if m.Jobs != nil {
		x.Own, x.Model = number(m.Jobs.Own), number(m.Jobs.Model)
	}
	return x
}

// returns returns the mean return of the episodes since the last measurement and resets the sums; NaN without a
// completed episode.
func (t *Training) returns() []number {
	out := make([]number, len(t.window))
	for i, v := range t.window {
		out[i] = number(v / float64(t.ended)) // 0/0 is NaN
	}
	clear(t.window)
	t.ended = 0
	return out
}

// wall returns the seconds spent so far, NaN without a clock.
func (t *Training) wall() float64 {
	if t.o.Now == nil {
		return math.NaN()
	}
	return (t.before + t.o.Now() - t.from).Seconds()
}

// describe adds the notes of the environment.
func (t *Training) describe(m *morl.Meta) {
	if t.world.data != "" {
		m.Notes[noteData] = t.world.data
	}
	if t.world.note != nil {
		t.world.note(m)
	}
}

// file returns an agent file; step is the step of its measurement.
func (t *Training) file(a morl.Agent, step int) ([]byte, error) {
	m := t.meta
	m.Notes = map[string]string{noteSteps: strconv.Itoa(t.steps), noteKept: strconv.Itoa(step)}
	t.describe(&m)
	var b bytes.Buffer
	if err := morl.WriteFile(&b, m, a); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
