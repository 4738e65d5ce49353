package simulate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/swf"
)

// filesFlags holds the flags that write the simulation input in formats of other simulators.
type filesFlags struct {
	platformOut, workloadOut string
	version                  int
}

func (f *filesFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.platformOut, "platform-out", "", "write the platform to `FILE` as Batsim's XML, which contains speeds and watts, but no memory and bandwidth")
	fs.StringVar(&f.workloadOut, "workload-out", "", "write the simulated jobs to `FILE`: Batsim's JSON, or a trace if its name ends in .swf or .swf.gz")
	fs.IntVar(&f.version, "workload-version", 3, "version of Batsim's JSON in --workload-out: 3|5")
}

func (f *filesFlags) rules(q *simulateQueueOptions) []cli.Rule {
	return []cli.Rule{
		{If: !q.onPlatform(), Flags: "platform-out", Requires: "--platform or --options"},
		{If: f.workloadOut == "" || f.trace(), Flags: "workload-version", Requires: "--workload-out FILE.json"},
		{If: q.listen != "", Flags: "platform-out workload-out", Conflict: "--batsim-endpoint", Reason: "the jobs are those of the other simulator"},
	}
}

// trace reports whether the jobs are written as a trace.
func (f *filesFlags) trace() bool {
	return strings.HasSuffix(f.workloadOut, ".swf") || strings.HasSuffix(f.workloadOut, ".swf.gz")
}

// write writes the platform and the jobs of a window.
func (f *filesFlags) write(e *cli.Env, w *sweep.Workload, window sweep.Window) error {
	if f.platformOut != "" {
		if err := e.Write(f.platformOut, "--platform-out", func(out io.Writer) error { return w.Tree.WriteXML(out) }); err != nil {
			return err
		}
	}
	if f.workloadOut == "" {
		return nil
	}
	jobs := w.Jobs[window.Start : window.Start+window.Length]
	if f.trace() {
		if err := swf.Save(e.Path(f.workloadOut), nil, jobs, w.Procs); err != nil {
			return fmt.Errorf("--workload-out: %w", err)
		}
		return nil
	}
	return e.Write(f.workloadOut, "--workload-out", func(out io.Writer) error { return hdeeprm.FromJobs(jobs, w.Procs).Write(out, f.version) })
}
