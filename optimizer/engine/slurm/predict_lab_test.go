package slurm_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/internal/lab"
	"trainopt/internal/stat"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/engine/slurm"
)

var (
	inLab   = flag.Bool("lab", false, "compare predicted starts with those of a Slurm on this machine; takes a quarter of an hour")
	labJobs = flag.Int("lab-jobs", 200, "number of jobs with -lab")
	labSeed = flag.Uint64("lab-seed", 1, "seed of the jobs with -lab")
)

// labJob is a job of the comparison.
type labJob struct {
	at      time.Duration // of the submission, since the beginning
	job     engine.Job    // the request
	seconds float64       // that it runs
	id      string
	now     time.Time // of the prediction
	p       engine.Prediction
	tested  time.Time // start according to sbatch --test-only
	started time.Time
}

// TestPredictionsInLab submits jobs of eight synthetic users, whose lengths are scaled to seconds, to a real Slurm. It
// predicts each start at the submission, from what squeue, scontrol and sacct show, and compares it with the estimate of
// sbatch --test-only.
//
//	go test ./optimizer/engine/slurm -run PredictionsInLab -v -lab -timeout 40m
func TestPredictionsInLab(t *testing.T) {
	if !*inLab {
		t.Skip("takes a quarter of an hour: run with -lab")
	}
	l := lab.Require(t)
	for _, kv := range l.Env {
		if name, value, _ := strings.Cut(kv, "="); name == "PATH" || name == "SLURM_CONF" || name == "MYSQL_UNIX_PORT" {
			t.Setenv(name, value)
		}
	}
	jobs := drawLabJobs(*labJobs, *labSeed)
	e := &slurm.Engine{Folder: t.TempDir()}
	begin := time.Now().Truncate(time.Second)
	t.Cleanup(func() {
		for i := range jobs {
			if jobs[i].id != "" {
				_ = exec.Command("scancel", jobs[i].id).Run()
			}
		}
	})
	for i := range jobs {
		time.Sleep(time.Until(begin.Add(jobs[i].at)))
		predictInLab(t, e, &jobs[i], begin)
	}
	awaitStarts(t, e, jobs, begin)
	reportLab(t, "all jobs", jobs)
	reportLab(t, "without the first quarter, which has little history", jobs[len(jobs)/4:])
}

// drawLabJobs draws jobs of eight users with two or three habits each, at 95 % of the GPUs of the lab.
func drawLabJobs(n int, seed uint64) []labJob {
	r := rand.New(rand.NewPCG(seed, 5))
	type habit struct {
		name          string
		place         engine.Place
		limit         time.Duration
		share, spread float64
	}
	var habits []habit
	for u := range 8 {
		usual := 0.08 + 0.3*r.Float64()
		for k := range 2 + r.IntN(2) {
			gpus := []int{1, 1, 1, 2, 2, 4}[r.IntN(6)]
			habits = append(habits, habit{fmt.Sprintf("user%d.job%d", u, k), engine.Place{Partition: "gpu", GPUs: gpus, CPUs: gpus, Memory: 0.25, GPUType: []string{"", "", "", "k80"}[r.IntN(4)]},
				time.Duration(1+r.IntN(4)) * time.Minute, usual * math.Exp(0.4*r.NormFloat64()), 0.05 + 0.4*r.Float64()})
		}
	}
	jobs := make([]labJob, n)
	work := 0.0
	for i := range jobs {
		h := habits[r.IntN(len(habits))]
		user, _, _ := strings.Cut(h.name, ".")
		jobs[i] = labJob{job: engine.Job{User: user, Name: h.name, Place: h.place, Limit: h.limit}}
		jobs[i].seconds = max(min(h.share*math.Exp(h.spread*r.NormFloat64()), 0.95)*h.limit.Seconds(), 1)
		work += (jobs[i].seconds + 1) * float64(h.place.GPUs)
	}
	gap := work / float64(n) / 16 / 0.95
	at := 0.0
	for i := range jobs {
		at += gap * r.ExpFloat64()
		jobs[i].at = time.Duration(at * float64(time.Second))
	}
	return jobs
}

var testOnly = regexp.MustCompile(`to start at (\S+)`)

// predictInLab predicts the start of a job and submits it.
func predictInLab(t *testing.T, e *slurm.Engine, j *labJob, begin time.Time) {
	t.Helper()
	h, err := e.History(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	q, err := e.Queue(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	q.Now = time.Now()
	// All jobs belong to the user of the test: their names begin with that of the synthetic user.
	for _, list := range [][]engine.Job{h.Jobs, q.Running, q.Waiting} {
		for i := range list {
			list[i].User, _, _ = strings.Cut(list[i].Name, ".")
		}
	}
	if j.p, err = engine.Predict(q, j.job, h, engine.Options{}); err != nil {
		t.Fatal(err)
	}
	j.now = q.Now
	if len(q.Nodes) != 4 {
		t.Fatalf("%d nodes accept jobs, want 4", len(q.Nodes))
	}
	gres := "gpu:"
	if j.job.Place.GPUType != "" {
		gres += j.job.Place.GPUType + ":"
	}
	args := []string{"--parsable", "--output=/dev/null", "--job-name=" + j.job.Name, "--partition=gpu", "--nodes=1", "--ntasks=1", "--mem=256M", fmt.Sprintf("--cpus-per-task=%d", j.job.Place.CPUs),
		fmt.Sprintf("--gres=%s%d", gres, j.job.Place.GPUs), fmt.Sprintf("--time=%d", int(j.job.Limit.Minutes())), fmt.Sprintf("--wrap=sleep %.2f", j.seconds)}
	said, err := exec.Command("sbatch", append([]string{"--test-only"}, args...)...).CombinedOutput()
	if m := testOnly.FindSubmatch(said); err == nil && m != nil {
		if j.tested, err = time.ParseInLocation("2006-01-02T15:04:05", string(m[1]), time.Local); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("sbatch", args...).Output()
	if err != nil {
		t.Fatalf("sbatch: %v", err)
	}
	j.id = strings.TrimSpace(string(out))
	if _, err := strconv.Atoi(j.id); err != nil {
		t.Fatalf("sbatch: %q", out)
	}
}

// awaitStarts reads the starts from the accounting until all jobs have ended.
func awaitStarts(t *testing.T, e *slurm.Engine, jobs []labJob, begin time.Time) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Second) {
		h, err := e.History(t.Context(), begin)
		if err != nil && !errors.Is(err, engine.ErrUnreachable) {
			t.Fatal(err)
		}
		missing := 0
		for i := range jobs {
			if k := slices.IndexFunc(h.Jobs, func(j engine.Job) bool { return j.ID == jobs[i].id }); k >= 0 {
				jobs[i].started = h.Jobs[k].Started
			} else {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
	t.Fatal("some jobs have not ended in 15 minutes")
}

// reportLab logs the quality of the predictions of the jobs that, by the limits, could not start at once.
func reportLab(t *testing.T, what string, jobs []labJob) {
	t.Helper()
	var errs, byTest, byLimits, waits, widths []float64
	inside, tested := 0, 0
	for i := range jobs {
		j := &jobs[i]
		if j.p.ByLimits.Sub(j.now) <= 2*time.Second {
			continue
		}
		distance := func(t time.Time) float64 { return math.Abs(t.Sub(j.started).Seconds()) }
		// Slurm records whole seconds: the start is within the second from the recorded one on.
		in := j.started.Add(time.Second).After(j.p.P5) && !j.started.After(j.p.P95)
		if in {
			inside++
		}
		errs, byLimits = append(errs, distance(j.p.P50)), append(byLimits, distance(j.p.ByLimits))
		waits, widths = append(waits, j.started.Sub(j.now).Seconds()), append(widths, j.p.P95.Sub(j.p.P5).Seconds())
		if !j.tested.IsZero() {
			tested++
			byTest = append(byTest, distance(j.tested))
		}
		since := func(t time.Time) float64 { return t.Sub(j.now).Seconds() }
		t.Logf("%s %s: %d waiting ahead, predicted %.1f (%.1f–%.1f) s, started %.1f s (inside %v), limits %.1f, --test-only %.1f", j.id, j.job.Name, j.p.Ahead,
			since(j.p.P50), since(j.p.P5), since(j.p.P95), since(j.started), in, since(j.p.ByLimits), since(j.tested))
	}
	lo, hi := stat.Wilson(inside, max(len(errs), 1))
	t.Logf("%s: %d of %d jobs could not start at once: coverage %.1f %% (95 %% interval %.1f–%.1f), median error %.1f s, of --test-only (%d jobs) %.1f s (ratio %.2f), by limits %.1f s (ratio %.2f); median wait %.1f s, interval %.1f s",
		what, len(errs), len(jobs), 100*float64(inside)/float64(len(errs)), 100*lo, 100*hi, stat.Median(errs), tested, stat.Median(byTest), stat.Median(errs)/stat.Median(byTest),
		stat.Median(byLimits), stat.Median(errs)/stat.Median(byLimits), stat.Median(waits), stat.Median(widths))
}
