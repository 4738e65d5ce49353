package colocate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/engine"
)

// CyclesArg is the hidden first argument with which the binary starts itself as the job of a Remote measurement.
const CyclesArg = "__cycles"

// Remote measures each pattern in a job of an engine that has a node for itself. Nodes must be equal, share the file
// system, and have the programs. It is a Measurer.
type Remote struct {
	Engine engine.Engine
	Self   string   // absolute path of this binary, the same on every node
	Spec   string   // absolute path of the specification
	Dir    string   // directory for the files of jobs, which every node sees
	Env    []string // environment of the jobs
	Extra  []string // options of the site
	Seed   uint64
	jobs   int
}

// Intervals at which a job is observed.
const (
	cyclesEvery = 200 * time.Millisecond // its cycles
	stateEvery  = 5 * time.Second        // its state
)

// Measure submits the job of a pattern, reads its cycles as it writes them, and cancels it when they are enough.
func (r *Remote) Measure(ctx context.Context, counts []uint8, enough func(cycle) bool) (err error) {
	r.jobs++
	key := fmt.Sprintf("optimize.colocate.%d.%d", os.Getpid(), r.jobs)
	cycles, output := filepath.Join(r.Dir, key+".jsonl"), filepath.Join(r.Dir, key+".output")
	id, err := r.Engine.Submit(ctx, engine.Request{Key: key, Argv: []string{r.Self, CyclesArg, r.Spec, formatCounts(counts), strconv.FormatUint(r.Seed+uint64(r.jobs), 10), cycles},
		Env: r.Env, Dir: filepath.Dir(r.Spec), Output: output, Extra: append([]string{"--exclusive"}, r.Extra...)})
	if err != nil {
		return err
	}
	defer func() { // after an interrupt, too
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, r.Engine.Cancel(late, id))
	}()
	read, looked := 0, time.Now()
	for {
		all, fileErr := regular.ReadFile(cycles, regular.Settings)
		if fileErr != nil && !errors.Is(fileErr, os.ErrNotExist) {
			return fileErr
		}
		for {
			line, _, complete := bytes.Cut(all[read:], []byte("\n"))
			if !complete {
				break
			}
			read += len(line) + 1
			var c cycle
			if err := json.Unmarshal(line, &c); err != nil {
				return fmt.Errorf("read the cycles of job %s: %w", id, err)
			}
			if enough(c) {
				return nil
			}
		}
		if err := sleep(ctx, cyclesEvery); err != nil {
			return err
		}
		if time.Since(looked) > stateEvery {
			looked = time.Now()
			status, err := r.Engine.List(ctx, key)
			if err == nil && len(status) > 0 && status[0].State == engine.Ended {
				text, _ := os.ReadFile(output)
				return fmt.Errorf("job %s ended, %s: %s", id, status[0].Raw, strings.TrimSpace(string(text[max(0, len(text)-300):])))
			}
		}
	}
}

// RunCycles is the job: the arguments are those after CyclesArg. It returns the exit code.
func RunCycles(args []string) int {
	err := func() error {
		if len(args) != 4 {
			return fmt.Errorf("%d arguments, want 4", len(args))
		}
		text, err := regular.ReadFile(args[0], regular.Settings)
		if err != nil {
			return err
		}
		spec, err := ParseSpec(bytes.NewReader(text))
		if err != nil {
			return err
		}
		counts, err := parseCounts(args[1], len(spec.Apps))
		if err != nil {
			return err
		}
		seed, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return err
		}
		out, err := os.OpenFile(args[3], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer out.Close()
		l, err := NewLocal(spec, filepath.Dir(args[0]), seed)
		if err != nil {
			return err
		}
		defer l.Close()
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		var failed error
		err = l.Measure(ctx, counts, func(c cycle) bool {
			line, err := json.Marshal(c)
			if err == nil {
				_, err = out.Write(append(line, '\n'))
			}
			failed = err
			return err != nil
		})
		return errors.Join(failed, err)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "optimize: measure:", err)
		return 1
	}
	return 0
}

// formatCounts formats a pattern as 1,0,2.
func formatCounts(counts []uint8) string {
	words := make([]string, len(counts))
	for i, k := range counts {
		words[i] = strconv.Itoa(int(k))
	}
	return strings.Join(words, ",")
}

// parseCounts parses the pattern of formatCounts.
func parseCounts(text string, apps int) ([]uint8, error) {
	var out []uint8
	for _, w := range strings.Split(text, ",") {
		k, err := strconv.ParseUint(w, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: want counts such as 1,0,2", text)
		}
		out = append(out, uint8(k))
	}
	if len(out) != apps {
		return nil, fmt.Errorf("pattern %q: want %d counts", text, apps)
	}
	return out, nil
}

// values is a list of numbers whose NaN is null in JSON.
type values []float64

func (v values) MarshalJSON() ([]byte, error) {
	out := make([]*float64, len(v))
	for i := range v {
		if !math.IsNaN(v[i]) {
			out[i] = &v[i]
		}
	}
	return json.Marshal(out)
}

func (v *values) UnmarshalJSON(data []byte) error {
	var in []*float64
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*v = make(values, len(in))
	for i, x := range in {
		if (*v)[i] = math.NaN(); x != nil {
			(*v)[i] = *x
		}
	}
	return nil
}
