package runs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/history"
	"trainopt/optimizer/run"
	"trainopt/optimizer/tracker"
)

// assumedValues holds the flags for values that a log may lack.
type assumedValues struct {
	gpuModel           string
	model, dataset     string
	framework, machine string
	nodes              int
	numbers            map[string]*float64
}

// assumedNumbers lists the flags for numbers that a log may lack, with their destinations.
var assumedNumbers = []struct {
	flag, help string
	least      float64
	field      func(*history.Entry) *float64
}{
	{"gpus", "GPUs of the training, `N`; 0: none", 0, func(e *history.Entry) *float64 { return &e.Observed.GPUs }},
	{"cpus", "logical CPUs of the training, `N`", 1, func(e *history.Entry) *float64 { return &e.Observed.CPUs }},
	{"memory", "host memory, `GiB`", 0, func(e *history.Entry) *float64 { return &e.Observed.MemoryGiB }},
	{"batch-size", "samples per step over all GPUs, `N`", 1, func(e *history.Entry) *float64 { return &e.Observed.Batch }},
	{"params", "trained parameters of the model, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.Params }},
	{"layers", "layers of the model, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.Layers }},
	{"data-count", "samples per epoch, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.DataCount }},
	{"epochs", "epochs of the whole training, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.Epochs }},
}

// add registers the flags; about precedes their descriptions.
func (f *assumedValues) add(fs *pflag.FlagSet, about string) {
	f.numbers = map[string]*float64{}
	for _, n := range assumedNumbers {
		f.numbers[n.flag] = fs.Float64(n.flag, math.NaN(), about+n.help)
		fs.Lookup(n.flag).DefValue = "0" // hides the default in help
	}
	fs.StringVar(&f.gpuModel, "gpu", "", about+"`NAME` of the GPUs")
	fs.StringVar(&f.model, "model", "", about+"`NAME` of the model")
}

// entry returns the values to use for logs that lack them.
func (f *assumedValues) entry() (history.Entry, error) {
	var errs []error
	out := history.NewEntry(history.Log, "")
	out.Job.Model, out.Job.Dataset, out.Job.Framework = f.model, f.dataset, f.framework
	out.Observed.GPU, out.Observed.Machine, out.Observed.Nodes = cost.GPUModel(f.gpuModel), f.machine, f.nodes
	for _, n := range assumedNumbers {
		v := *f.numbers[n.flag]
		if v < n.least || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("--%s %g: want %g or more", n.flag, v, n.least))
		}
		*n.field(&out) = v
	}
	if f.nodes < 0 {
		errs = append(errs, fmt.Errorf("--nodes %d: want 1 or more", f.nodes))
	}
	if f.gpuModel != "" && out.Observed.GPUs == 0 {
		errs = append(errs, errors.New("--gpu with --gpus 0: a machine without GPUs has no GPU model"))
	}
	return out, errors.Join(errs...)
}

// logOptions returns the options for reading logs.
func (f *assumedValues) logOptions(format string, v *cli.Values) (history.LogOptions, error) {
	assume, err := f.entry()
	if format != "" && !slices.Contains(trainlog.Formats(), format) {
		err = errors.Join(err, fmt.Errorf("--log-format %q: unknown, want one of %s", format, strings.Join(trainlog.Formats(), ", ")))
	}
	return history.LogOptions{Format: format, Aliases: v.Table("monitor.columns"), Assume: assume}, err
}

// importOptions holds the flags of `runs import`.
type importOptions struct {
	cli.Options
	assumedValues
	format string
}

func importCommand(e *cli.Env) *cobra.Command {
	o := &importOptions{}
	cmd := &cobra.Command{
		Use: "import LOG…", Short: "Import training logs of other tools into the history", Args: cobra.MinimumNArgs(1),
		Long: `Import training logs of other programs into the history, so that predictions and analyses use them. A log may be
compressed by gzip, or be the directory in which a framework stored it: event files of TensorBoard, an offline run of W&B
(wandb/offline-run-…), a store of MLflow (mlruns, mlflow.db) with all runs that are not deleted. Values that a log lacks are
taken from the flags. Importing a log again replaces its earlier entries. Unreadable logs are reported at the end and do not
prevent the import of the others (exit code 2).`,
		Example: `  optimize runs import results.csv --gpus 1 --gpu "Tesla T4" --cpus 8 --model yolov8n
  optimize runs import old/*.csv --log-format keras
  optimize runs import mlruns wandb`,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	fs.StringVar(&o.format, "log-format", "", "format of the logs: "+strings.Join(trainlog.Formats(), "|")+" (default: by their content)")
	o.assumedValues.add(fs, "")
	fs.IntVar(&o.nodes, "nodes", 0, "machines of the training, `N`")
	fs.StringVar(&o.machine, "machine", "", "`NAME` of the machine, such as aws:p4d.24xlarge")
	fs.StringVar(&o.dataset, "dataset", "", "`NAME` of the data set")
	fs.StringVar(&o.framework, "framework", "", "framework of the training, such as pytorch")
	return cmd
}

// imported is the result for one log, in the form shown by --json.
type imported struct {
	Path    string   `json:"path"`
	Format  string   `json:"format"`
	Rows    int      `json:"rows"`
	BadRows int      `json:"bad_rows"`
	Bad     []string `json:"bad"` // the first few
	Entries []string `json:"entries"`
	Notes   []string `json:"notes"`
}

// run reads each log, stores the entries of all readable ones in the runs database and prints the results. Unreadable
// logs are reported together at the end as a usage error.
func (o *importOptions) run(paths []string) error {
	vals, err := o.LoadSettings(o.Flags, o.Config)
	if err != nil {
		return cli.Usage(err)
	}
	options, err := o.logOptions(o.format, vals)
	if err != nil {
		return cli.Usage(err)
	}
	out := []imported{}
	var entries []history.Entry
	var errs []error
	stores, empty := map[string]int{}, map[string]int{} // runs, and those without a row, by store
	all, done, err := expand(o.Env, paths)
	defer done()
	if err != nil {
		errs = append(errs, err)
	}
	for _, from := range all {
		path := from.path
		stores[from.store] = from.of
		log, err := history.ReadLog(o.Path(path), options)
		if from.of > 1 && errors.Is(err, trainlog.ErrNoData) {
			if empty[from.store]++; empty[from.store] < from.of {
				continue
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("read training log %s: no such file", path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("import: %s", from.named(err.Error())))
			continue
		}
		path = from.named(path)
		one := imported{Path: path, Format: log.Format, Rows: log.Rows, BadRows: log.Bad, Bad: append([]string{}, log.FirstBad...), Entries: []string{}, Notes: append([]string{}, log.Notes...)}
		for _, entry := range log.Entries {
			one.Entries = append(one.Entries, entry.ID)
		}
		for i := range log.Entries {
			log.Entries[i].Source = from.named(log.Entries[i].Source)
		}
		out, entries = append(out, one), append(entries, log.Entries...)
	}
	if len(entries) > 0 {
		db, notes, err := o.OpenHistory()
		if err != nil {
			return err
		}
		warn(o.Env, notes)
		if err := errors.Join(db.Put(entries...), db.Close()); err != nil {
			return err
		}
	}
	for _, store := range slices.Sorted(maps.Keys(empty)) {
		warn(o.Env, []string{fmt.Sprintf("%d of %d runs in %s %s no training row", empty[store], stores[store], store, map[bool]string{true: "has", false: "have"}[empty[store] == 1])})
	}
	if err := o.show(out); err != nil {
		return err
	}
	return cli.Usage(errors.Join(errs...))
}

// storedRun is a log to import: one named by the user, or one of several runs in a store.
type storedRun struct {
	path, store string
	of          int    // runs in the store
	unpacked    string // directory in which a database was unpacked, "" for other logs
}

// named replaces the directory in which a database was unpacked by the database.
func (s storedRun) named(text string) string {
	if s.unpacked == "" {
		return text
	}
	return strings.ReplaceAll(text, s.unpacked, s.store)
}

// expand replaces the stores of experiment trackers by the runs in them. An SQLite store of MLflow is unpacked; done
// removes it.
func expand(e *cli.Env, paths []string) (out []storedRun, done func(), err error) {
	var temporary []string
	done = func() {
		for _, dir := range temporary {
			_ = os.RemoveAll(dir)
		}
	}
	var errs []error
	for _, path := range paths {
		from, unpacked := e.Path(path), ""
		switch dir, err := tracker.UnpackMLflow(from); {
		case err != nil:
			errs = append(errs, fmt.Errorf("import: read store of MLflow %s: %w", path, err))
			continue
		case dir != "":
			temporary = append(temporary, dir)
			from, unpacked = dir, dir
		}
		found := trainlog.RunsIn(from)
		if len(found) == 1 && found[0] == from {
			found[0] = path
		}
		for _, one := range found {
			out = append(out, storedRun{one, path, len(found), unpacked})
		}
	}
	return out, done, errors.Join(errs...)
}

// maxBadRows is the number of bad rows shown per log.
const maxBadRows = 3

func (o *importOptions) show(list []imported) error {
	if o.JSON {
		return o.PrintJSON(struct {
			Schema int        `json:"schema"`
			Logs   []imported `json:"logs"`
		}{1, list})
	}
	view := newView(o.Env)
	for _, one := range list {
		for _, n := range one.Notes {
			view.Event(run.Info, filepath.Base(one.Path)+": "+n)
		}
		skipped := ""
		if one.BadRows > 0 {
			skipped = fmt.Sprintf(", %d skipped (%s)", one.BadRows, strings.Join(one.Bad[:min(len(one.Bad), maxBadRows)], "; "))
		}
		fmt.Fprintf(o.Stdout, "%s (%s): %d rows imported%s\n", filepath.Base(one.Path), one.Format, one.Rows, skipped)
	}
	return nil
}
