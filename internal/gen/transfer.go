package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// evaluateTransfer measures the accuracy of package transfer on unseen data: it hides published measurements, predicts them, and
// prints the errors and the coverage of the 90 % interval.
//
//	go run ./internal/gen transfer --data DIR
//	go run ./internal/gen transfer --data DIR --cross source
//	go run ./internal/gen transfer --data DIR --fit throughput --sweeps 20    # prints hyper-parameters, nothing else
//	go run ./internal/gen transfer --state DIR --list    # the runs of a state directory, each from the others
func evaluateTransfer(args []string, w io.Writer) error {
	flags := flag.NewFlagSet("transfer", flag.ContinueOnError)
	data := flags.String("data", "", "folder with the tables; without it the measurements in the binary")
	points := flags.Int("points", 6, "measurements asked for of each GPU count that is hidden; of a GPU type twice, of a model four times as many")
	only := flags.String("case", "", "only cases whose name contains this")
	each := flags.Bool("list", false, "print every answer too")
	cross := flags.String("cross", "", "hide from the hyper-parameters, too, what is asked for: they are fitted again without each source, or each family")
	fit := flags.String("fit", "", "fit the hyper-parameters of this quantity and print them, nothing else")
	sweeps := flags.Int("sweeps", 10, "of a fit, at most")
	kept := flags.Int("fit-points", 1, "measurements of one GPU count of one model on one GPU that a fit keeps")
	state := flags.String("state", "", "predict each run of this state directory from the others of its script, nothing else")
	same := flags.Bool("same", false, "with --state: also from runs that did the same work")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *state != "" {
		list, err := leaveOutRuns(*state, *same)
		if err == nil {
			writeRuns(w, list, *each)
		}
		return err
	}
	entries, err := publishedEntries(*data)
	if err != nil {
		return err
	}
	how := transfer.Fitting{Points: *kept, Sweeps: *sweeps, Logf: func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }}
	if *fit != "" {
		tuned, err := transfer.Fit(entries, transfer.Quantity(*fit), how)
		fmt.Fprint(w, tuned)
		return err
	}
	list := slices.DeleteFunc(append(hidings(entries, *points), ownHidings(entries, *points)...), func(h hiding) bool { return !strings.Contains(h.kind, *only) })
	fmt.Fprintf(w, "%d measurements, %d hidden in turn\n\n", len(entries), len(list))
	var outcomes []outcome
	if *cross == "" {
		outcomes = leaveOut(entries, list, transfer.Options{})
	} else if outcomes, err = crossed(entries, list, *cross, how); err != nil {
		return err
	}
	if *each {
		for _, o := range outcomes {
			fmt.Fprintf(w, "%-20s %-50s measured %10.4g, predicted %10.4g (%.4g…%.4g)\n", o.kind, o.id, o.truth, o.answer.P50, o.answer.P5, o.answer.P95)
		}
	}
	writeTable(w, tabulate(outcomes))
	return nil
}

// publishedEntries returns the measurements in the binary, or those of a folder.
func publishedEntries(dir string) ([]history.Entry, error) {
	if dir == "" {
		return history.Published(), nil
	}
	return history.LoadPublished(dir)
}

func writeTable(w io.Writer, rows []row) {
	fmt.Fprintf(w, "%-20s %-12s %7s %8s  %-15s %8s %9s  %-15s %7s  %s\n", "hidden", "source", "points", "median", "95 % interval", "90th", "coverage", "95 % interval", "P95/P5", "no basis")
	for _, r := range rows {
		if r.points == 0 {
			fmt.Fprintf(w, "%-20s %-12s %7d %8s  %-15s %8s %9s  %-15s %7s  %d\n", r.kind, r.source, 0, "–", "–", "–", "–", "–", "–", r.silent)
			continue
		}
		fmt.Fprintf(w, "%-20s %-12s %7d %7.1f%%  %5.1f…%5.1f%%    %7.1f%% %8.1f%%  %5.1f…%5.1f%%   %7.2f  %d\n",
			r.kind, r.source, r.points, 100*r.median, 100*r.medianLow, 100*r.medianHigh, 100*r.ninety, 100*r.coverage, 100*r.low, 100*r.high, r.wide, r.silent)
	}
}
