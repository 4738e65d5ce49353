package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/tracker"
)

// trackers maps the formats of `runs export` that write runs to an experiment tracker to the function that writes one and
// returns where it is.
var trackers = map[string]func(o *exportOptions, r *tracker.Run) (string, error){
	"mlflow": func(o *exportOptions, r *tracker.Run) (string, error) {
		to := cmp.Or(o.to, "mlruns")
		if !isAddress(to) {
			return tracker.MLflowStore(o.Path(strings.TrimPrefix(to, "file://")), o.name, r)
		}
		s := tracker.MLflowServer{URL: to, Token: o.Getenv("MLFLOW_TRACKING_TOKEN"), User: o.Getenv("MLFLOW_TRACKING_USERNAME"), Password: o.Getenv("MLFLOW_TRACKING_PASSWORD")}
		return s.Export(context.Background(), o.name, r)
	},
	"tensorboard": func(o *exportOptions, r *tracker.Run) (string, error) {
		return tracker.TensorBoard(o.Path(cmp.Or(o.to, "tensorboard")), r)
	},
}

func isAddress(to string) bool {
	return strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://")
}

// tracked is one exported run, in the form shown by --json.
type tracked struct {
	RunID string `json:"run_id"`
	To    string `json:"to"`
}

// track exports the named runs, or all, to an experiment tracker. Runs that cannot be exported are reported at the end and
// do not prevent the export of the others.
func (o *exportOptions) track(refs []string) error {
	err := o.Check(cli.Rule{If: true, Flags: "kind model since", Conflict: "--format " + o.format.Name, Reason: "name the runs"},
		cli.Rule{If: o.format.Name != "mlflow", Flags: "experiment", Requires: "--format mlflow"},
		cli.Rule{If: o.to != "", Flags: "output", Conflict: "--to", Reason: "both name the destination"})
	if o.name == "" {
		err = errors.Join(err, errors.New("--experiment: the name is empty"))
	}
	if o.to = cmp.Or(o.to, o.format.File); isAddress(o.to) && o.format.Name != "mlflow" {
		err = errors.Join(err, fmt.Errorf("--to %s: want a directory", o.to))
	}
	if err != nil {
		return cli.Usage(err)
	}
	dirs, err := o.runDirs(refs)
	if err != nil {
		return err
	}
	var errs []error
	done := []tracked{}
	for _, dir := range dirs {
		r, err := tracker.Load(dir)
		if err == nil {
			var where string
			if where, err = trackers[o.format.Name](o, r); err == nil {
				done = append(done, tracked{r.Record.RunID, where})
			}
		}
		errs = append(errs, err)
	}
	if o.JSON {
		err = o.PrintJSON(map[string]any{"schema": 1, "runs": done})
	} else {
		for _, one := range done {
			fmt.Fprintf(o.Stdout, "%s: %s\n", one.RunID, one.To)
		}
	}
	return errors.Join(append(errs, err)...)
}

// runDirs returns the directories of the named runs; of all readable ones without a name.
func (o *exportOptions) runDirs(refs []string) (dirs []string, err error) {
	for _, ref := range refs {
		dir, err := findRun(o.Env, []string{ref})
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	if len(refs) > 0 {
		return dirs, nil
	}
	entries, err := journal.List(o.State())
	for _, e := range entries {
		if e.Record != nil {
			dirs = append(dirs, e.Dir)
		}
	}
	if err == nil && len(dirs) == 0 {
		err = cli.Usagef("export runs: no run in %s", o.State())
	}
	return dirs, err
}
