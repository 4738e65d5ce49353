package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/logs"
	"trainopt/optimizer/run"
)

// importFlags holds the flags that control how logs are read and that replace values missing in them.
type importFlags struct {
	format             string
	gpuModel           string
	model, dataset     string
	framework, machine string
	nodes              int
	numbers            map[string]*float64
}

// importNumbers lists the flags for numbers that a log may lack, with their destinations.
var importNumbers = []struct {
	flag, help string
	least      float64
	field      func(*history.Entry) *float64
}{
	{"gpus", "GPUs that it ran on, `N`; 0: none", 0, func(e *history.Entry) *float64 { return &e.Observed.GPUs }},
	{"cpus", "logical CPUs that it ran on, `N`", 1, func(e *history.Entry) *float64 { return &e.Observed.CPUs }},
	{"memory", "host memory, `GiB`", 0, func(e *history.Entry) *float64 { return &e.Observed.MemoryGiB }},
	{"batch-size", "samples a step over all GPUs, `N`", 1, func(e *history.Entry) *float64 { return &e.Observed.Batch }},
	{"params", "trained parameters of the model, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.Params }},
	{"layers", "layers of the model, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.Layers }},
	{"data-count", "samples in one epoch, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.DataCount }},
	{"epochs", "epochs of the whole training, `N`", 1, func(e *history.Entry) *float64 { return &e.Job.Epochs }},
}

func runsImportCommand(e *env, c *common) *cobra.Command {
	f := &importFlags{numbers: map[string]*float64{}}
	cmd := &cobra.Command{
		Use: "import LOG…", Short: "Import training logs of other tools into the history", Args: cobra.MinimumNArgs(1),
		Long: `Take training logs of other programs into the history, so that predictions and analyses use them.
A log may be compressed by gzip, or be the directory in which a framework left it. What it does not
say of itself is taken from the flags. The same log again replaces what it gave before. Logs that
cannot be read are named at the end, the others are taken (exit code 2).`,
		Example: `  optimize runs import results.csv --gpus 1 --gpu-model "Tesla T4" --cpus 8 --model yolov8n
  optimize runs import old/*.csv --format keras`,
		RunE: func(cmd *cobra.Command, args []string) error { return e.importLogs(cmd.Flags(), c, f, args) },
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringVar(&f.format, "format", "", "format of the logs: "+strings.Join(trainlog.Formats(), "|")+" (default: by their content)")
	for _, n := range importNumbers {
		f.numbers[n.flag] = fs.Float64(n.flag, math.NaN(), n.help)
		fs.Lookup(n.flag).DefValue = "0" // hides the default in help
	}
	fs.IntVar(&f.nodes, "nodes", 0, "machines that it ran on, `N`")
	fs.StringVar(&f.gpuModel, "gpu-model", "", "`NAME` of the GPUs")
	fs.StringVar(&f.machine, "machine", "", "`NAME` of the machine, such as aws:p4d.24xlarge")
	fs.StringVar(&f.model, "model", "", "`NAME` of the model")
	fs.StringVar(&f.dataset, "dataset", "", "`NAME` of the data set")
	fs.StringVar(&f.framework, "framework", "", "what it is written with, such as pytorch")
	return cmd
}

// assume returns the values to use for logs that lack them.
func (f *importFlags) assume() (history.Entry, error) {
	var errs []error
	out := history.NewEntry(history.Log, "")
	out.Job.Model, out.Job.Dataset, out.Job.Framework = f.model, f.dataset, f.framework
	out.Observed.GPU, out.Observed.Machine, out.Observed.Nodes = cost.GPUModel(f.gpuModel), f.machine, f.nodes
	for _, n := range importNumbers {
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
		errs = append(errs, errors.New("--gpu-model with --gpus 0: name the GPUs only where there are some"))
	}
	if f.format != "" && !slices.Contains(trainlog.Formats(), f.format) {
		errs = append(errs, fmt.Errorf("--format %q: unknown, want one of %s", f.format, strings.Join(trainlog.Formats(), ", ")))
	}
	return out, errors.Join(errs...)
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

// importLogs reads each log, stores the entries of all readable ones in the runs database and prints the results.
// Unreadable logs are reported together at the end as a usage error.
func (e *env) importLogs(fs *pflag.FlagSet, c *common, f *importFlags, paths []string) error {
	assume, err := f.assume()
	if err != nil {
		return usageError{err}
	}
	vals, err := loadSettings(e, fs, c.config)
	if err != nil {
		return usageError{err}
	}
	options := logs.Options{Format: f.format, Aliases: vals.table("monitor.columns"), Assume: assume}
	out := []imported{}
	var entries []history.Entry
	var errs []error
	for _, path := range paths {
		log, err := logs.Read(inDir(e.dir, path), options)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("read training log %s: there is no such file", path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("import: %w", err))
			continue
		}
		one := imported{Path: path, Format: log.Format, Rows: log.Rows, BadRows: log.Bad, Bad: append([]string{}, log.FirstBad...), Entries: []string{}, Notes: append([]string{}, log.Notes...)}
		for _, entry := range log.Entries {
			one.Entries = append(one.Entries, entry.ID)
		}
		out, entries = append(out, one), append(entries, log.Entries...)
	}
	if len(entries) > 0 {
		db, err := e.openHistory(c)
		if err != nil {
			return err
		}
		if err := errors.Join(db.Put(entries...), db.Close()); err != nil {
			return err
		}
	}
	if err := e.showImported(c, out); err != nil {
		return err
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// firstBad is the number of bad rows shown per log.
const firstBad = 3

func (e *env) showImported(c *common, list []imported) error {
	if c.json {
		return printJSON(e.stdout, struct {
			Schema int        `json:"schema"`
			Logs   []imported `json:"logs"`
		}{1, list})
	}
	view := e.view(c)
	for _, one := range list {
		for _, n := range one.Notes {
			view.Event(run.Info, filepath.Base(one.Path)+": "+n)
		}
		skipped := ""
		if one.BadRows > 0 {
			skipped = fmt.Sprintf(", %d skipped (%s)", one.BadRows, strings.Join(one.Bad[:min(len(one.Bad), firstBad)], "; "))
		}
		fmt.Fprintf(e.stdout, "%s (%s): %d rows taken%s\n", filepath.Base(one.Path), one.Format, one.Rows, skipped)
	}
	return nil
}
