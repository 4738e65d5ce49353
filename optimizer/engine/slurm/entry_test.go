package slurm

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"trainopt/optimizer/engine"
)

func TestLookup(t *testing.T) {
	const header = "JOBID|STATE|END_TIME|RESTART_COUNT|\n"
	at := time.Date(2026, 11, 23, 5, 34, 10, 0, time.UTC)
	cases := map[string]struct {
		answer Result
		want   *engine.Entry
		fails  error // nil: no error, or any if want is nil and answer is no table
	}{
		"running":              {Result{Stdout: header + "21|RUNNING|2026-11-23T05:34:10|1|\n"}, &engine.Entry{State: engine.Running, Raw: "RUNNING", End: at, Restarts: 1}, nil},
		"ended":                {Result{Stdout: header + "21|TIMEOUT|2026-11-23T05:34:10|0|\n"}, &engine.Entry{State: engine.Ended, Raw: "TIMEOUT", End: at, Restarts: 0}, nil},
		"waits":                {Result{Stdout: header + "21|PENDING|N/A|2|\n"}, &engine.Entry{State: engine.Pending, Raw: "PENDING", End: time.Time{}, Restarts: 2}, nil},
		"last task of array":   {Result{Stdout: header + "21|PENDING|N/A|0|\n22|RUNNING|NONE|0|\n21|RUNNING|NONE|0|\n"}, &engine.Entry{State: engine.Running, Raw: "RUNNING", End: time.Time{}, Restarts: 0}, nil},
		"forgotten":            {Result{Code: 1, Stderr: "slurm_load_jobs error: Invalid job id specified\n"}, nil, nil},
		"other job":            {Result{Stdout: header}, nil, nil},
		"controller down":      {Result{Code: 1, Stderr: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"}, nil, engine.ErrUnreachable},
		"without restart data": {Result{Stdout: "JOBID|STATE|END_TIME|\n21|RUNNING|2026-11-23T05:34:10|\n"}, &engine.Entry{State: engine.Running, Raw: "RUNNING", End: at, Restarts: 0}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := &Engine{Run: func(_ context.Context, cmd Command) (Result, error) {
				if !slices.Contains(cmd.Argv, "--jobs=21") {
					t.Errorf("command %q", cmd.Argv)
				}
				return c.answer, nil
			}}
			got, err := e.Lookup(t.Context(), "21")
			if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.fails) {
				t.Errorf("got %+v, %v\nwant %+v, %v", got, err, c.want, c.fails)
			}
		})
	}
	for _, text := range []string{"", "21|RUNNING|\n", header + "21|RUNNING|soon|0|\n", header + "21|RUNNING|NONE|-1|\n"} {
		if e, err := parseEntry(text, "21"); err == nil {
			t.Errorf("%q: %+v, want an error", text, e)
		}
	}
}

func TestRequeue(t *testing.T) {
	var argv []string
	e := &Engine{Run: func(_ context.Context, cmd Command) (Result, error) {
		argv = cmd.Argv
		return Result{}, nil
	}}
	if err := e.Requeue(t.Context(), "21"); err != nil || !slices.Equal(argv, []string{"scontrol", "requeue", "21"}) {
		t.Errorf("%q, %v", argv, err)
	}
	argv = nil
	if err := e.Requeue(t.Context(), "21 --all"); err == nil || argv != nil {
		t.Errorf("%q, %v, want a refusal before any command", argv, err)
	}
}

func FuzzEntry(f *testing.F) {
	f.Add("JOBID|STATE|END_TIME|RESTART_COUNT|\n21|RUNNING|2026-11-23T05:34:10|1|\n")
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := parseEntry(text, "21"); err == nil && e != nil && e.Restarts < 0 {
			t.Errorf("%+v", e)
		}
	})
}
