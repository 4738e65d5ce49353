// Command oracle runs the documented commands and quick figures of optimize and compares their output with stored
// digests, so that a restructuring cannot change an output unnoticed. commands.txt lists the commands and documents its
// own format; digests.txt contains a digest of each output without its volatile parts. The outputs themselves are kept
// in the user's cache directory, from which a mismatch is shown as a difference.
//
//	go run ./internal/oracle             # compare everything
//	go run ./internal/oracle -run spot   # only matching scenes or commands
//	go run ./internal/oracle -update     # store the current output
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"
)

// options selects the scenes and how they are run.
type options struct {
	root    string // of the repository
	binary  string // empty: built from root
	run     *regexp.Regexp
	short   bool
	jobs    int
	verbose bool
	limit   time.Duration
}

func main() {
	var o options
	run := flag.String("run", "", "only scenes with a command that matches the `REGEXP`, as \"scene: command\"")
	update := flag.Bool("update", false, "store the digests of what is printed now")
	flag.BoolVar(&o.verbose, "v", false, "print the CPU time of each command when it ends")
	flag.StringVar(&o.root, "root", ".", "root of the repository")
	flag.StringVar(&o.binary, "binary", "", "program to run (default: built from the repository)")
	flag.BoolVar(&o.short, "short", false, "only the scenes marked short")
	flag.IntVar(&o.jobs, "j", 2, "scenes at the same time")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "the longest that one command may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.run, err = regexp.Compile(*run); err == nil {
		err = oracle(ctx, os.Stdout, o, *update)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

var errDiffers = errors.New("outputs differ; if that is intended, run make oracle-update and report it in the commit")

// oracle runs the selected scenes and compares their outputs with the stored digests; with update it stores the new
// digests.
func oracle(ctx context.Context, w io.Writer, o options, update bool) error {
	path := filepath.Join(o.root, "internal", "oracle", "digests.txt")
	stored, err := readDigests(path)
	if err != nil {
		return err
	}
	kept, err := openOutputs()
	if err != nil {
		return err
	}
	results, failed := runAll(ctx, o)
	found := digests{}
	for _, r := range results {
		if found[r.key], err = kept.keep(r.output); err != nil {
			return fmt.Errorf("keep output: %w", err)
		}
	}
	whole := o.run.String() == "" && !o.short && failed == nil
	if update {
		if !whole {
			for key, sum := range stored {
				if found[key] == "" {
					found[key] = sum
				}
			}
		}
		return errors.Join(failed, found.write(path))
	}
	different := compare(w, kept, stored, found, whole)
	fmt.Fprintf(w, "%d commands, %d differ\n", len(results), different)
	if different > 0 {
		return errors.Join(failed, errDiffers)
	}
	return failed
}

// compare prints every difference and returns their number. If whole is set, a stored command that was not run is a
// difference.
func compare(w io.Writer, kept outputs, stored, found digests, whole bool) int {
	different := 0
	for _, key := range slices.Sorted(maps.Keys(found)) {
		switch stored[key] {
		case found[key]:
			continue
		case "":
			fmt.Fprintf(w, "no digest: %s\n", key)
		default:
			fmt.Fprintf(w, "differs: %s\n%s\n", key, kept.difference(stored[key], found[key]))
		}
		different++
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if whole && found[key] == "" {
			fmt.Fprintf(w, "not run: %s\n", key)
			different++
		}
	}
	return different
}

// runAll runs the selected scenes in parallel, limited by the option jobs, and returns their results in list order.
func runAll(ctx context.Context, o options) ([]result, error) {
	list, err := parseCatalogue(commandList)
	if err != nil {
		return nil, err
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "oracle-binary-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	if o.binary == "" {
		o.binary, err = build(ctx, o.root, temp)
	} else {
		o.binary, err = filepath.Abs(o.binary)
	}
	if err != nil {
		return nil, err
	}
	r := &runner{root: o.root, binary: o.binary, limit: o.limit, verbose: o.verbose}
	scenes := slices.DeleteFunc(list.scenes, func(s scene) bool { return !o.selects(s) })
	results, errs := make([][]result, len(scenes)), make([]error, len(scenes))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(o.jobs, 1) {
		workers.Go(func() {
			for i := range next {
				results[i], errs[i] = r.play(ctx, scenes[i])
			}
		})
	}
	for i := range scenes {
		next <- i
	}
	close(next)
	workers.Wait()
	return slices.Concat(results...), errors.Join(errs...)
}

func (o options) selects(s scene) bool {
	if o.short && !s.short {
		return false
	}
	return o.run.MatchString(s.name) || slices.ContainsFunc(s.commands, func(c command) bool { return o.run.MatchString(c.key) })
}
