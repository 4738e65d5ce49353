package simulate

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// gavelFlag maps an option of Gavel's sweep scripts to its equivalent here. The long form is registered so that the
// error can name the equivalent.
type gavelFlag struct {
	long, short string
	here        string
	takes       bool // takes a value
	same        bool // has the same name here
}

// gavelFlags lists all options of Gavel's sweep scripts.
var gavelFlags = []gavelFlag{
	{long: "policies", short: "-p", here: "--policies A,B,… or all", same: true},
	{long: "seeds", here: "--seeds 0:2 or 0,1,2", same: true},
	{long: "cluster-spec", short: "-c", takes: true, here: "--cluster v100=36,p100=36,k80=36, may be repeated"},
	{long: "num-gpus-per-server", takes: true, here: "--gpus-per-server N, or by type"},
	{long: "window-start", short: "-s", takes: true, here: "--window A:B"},
	{long: "window-end", short: "-e", takes: true, here: "--window A:B"},
	{long: "throughput-lower-bound", short: "-a", takes: true, here: "--arrival-rates A:B:N"},
	{long: "throughput-upper-bound", short: "-b", takes: true, here: "--arrival-rates A:B:N"},
	{long: "num-total-jobs-lower-bound", short: "-a", takes: true, here: "--static A:B:N"},
	{long: "num-total-jobs-upper-bound", short: "-b", takes: true, here: "--static A:B:N"},
	{long: "num-data-points", short: "-n", takes: true, here: "the N of --arrival-rates or --static A:B:N"},
	{long: "interval", short: "-i", here: "--round 360", same: true},
	{long: "fixed-job-duration", short: "-f", takes: true, here: "--duration DUR"},
	{long: "generate-multi-gpu-jobs", short: "-m", here: "--generate multi"},
	{long: "generate-multi-priority-jobs", here: "--priorities"},
	{long: "assign-SLOs", here: "--slos"},
	{long: "ideal", here: "--ideal", same: true},
	{long: "throughputs-file", takes: true, here: "--throughputs FILE"},
	{long: "per-instance-type-prices-dir", takes: true, here: "--prices FILE"},
	{long: "available-clouds", takes: true, here: "--prices FILE, with the prices of those clouds"},
	{long: "timeout", short: "-t", here: "--timeout DUR", same: true},
	{long: "processes", short: "-j", here: "--processes N", same: true},
	{long: "log-dir", short: "-l", takes: true, here: "--output FILE, --jobs-out FILE"},
	{long: "num-active-jobs", short: "-n", takes: true, here: "--figure runtime, with --points N"},
	{long: "num-trials", takes: true, here: "--figure runtime: one per seed of --seeds"},
	{long: "verbose", short: "-v", here: "nothing: a bar shows the progress; --quiet hides it"},
	{long: "cutoff-throughputs-file", takes: true, here: "nothing: loads above an unstable one are not tried"},
	{long: "utilization-threshold", short: "-u", takes: true, here: "nothing: the original ignores it"},
	{long: "checkpoint-threshold", takes: true, here: "nothing: a run takes seconds and is not saved"},
	{long: "solver", takes: true, here: "nothing: programs are solved exactly by the built-in solvers"},
	{long: "simulate-steady-state", here: "--filled"},
	{long: "enable-global-queue", here: "--global-queue, with --compat"},
	{long: "profiling-percentages", takes: true, here: "--profiling-percentage P, one per run"},
	{long: "num-reference-models", takes: true, here: "--reference-models N, one per run"},
}

// gavelOptionTable returns the option table of the help text.
func gavelOptionTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-36s %s\n", "theirs", "here")
	for _, g := range gavelFlags {
		name := "--" + g.long
		if g.short != "" {
			name = g.short + ", " + name
		}
		fmt.Fprintf(&b, "  %-36s %s\n", name, g.here)
	}
	return strings.TrimRight(b.String(), "\n")
}

// addGavelOptions registers the differently named options as hidden flags, for error messages.
func addGavelOptions(fs *pflag.FlagSet) {
	for _, g := range gavelFlags {
		if g.same {
			continue
		}
		fs.String(g.long, "", g.here)
		flag := fs.Lookup(g.long)
		flag.Hidden = true
		if !g.takes {
			flag.NoOptDefVal = "true"
		}
	}
}

// gavelOption returns an error that names the equivalent of the first such option given.
func gavelOption(cmd *cobra.Command) error {
	for _, g := range gavelFlags {
		if g.same || !cmd.Flags().Changed(g.long) {
			continue
		}
		if what, none := strings.CutPrefix(g.here, "nothing: "); none {
			return fmt.Errorf("--%s of Gavel's scripts has no meaning here: %s", g.long, what)
		}
		return fmt.Errorf("--%s is an option of Gavel's scripts: here it is %s", g.long, g.here)
	}
	return nil
}
