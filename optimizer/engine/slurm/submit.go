package slurm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/wording"
	"trainopt/optimizer/engine"
)

// Submit submits a stretch as a batch job and returns its number. If squeue lists a job of the user with the name
// r.Key that is pending or running, that job's number is returned. If the answer of sbatch was lost, the error wraps
// engine.ErrUnreachable, and a later Submit of the same key finds the job. Two concurrent calls with one key submit two
// jobs.
//
// The job is not requeued unless r.Extra contains --requeue: another attempt is another stretch. Slurm sends the warning
// up to a minute earlier than r.Warn, and r.Warn is limited to 65535 s.
func (e *Engine) Submit(ctx context.Context, r engine.Request) (string, error) {
	argv, err := submission(r)
	if err != nil {
		return "", fmt.Errorf("submit job %s: %w", r.Key, err)
	}
	out, err := e.query(ctx, "squeue", "--all", "--user="+user(), "--name="+r.Key, "--states=all", "--Format="+queueFormat)
	if err != nil {
		return "", fmt.Errorf("submit job %s: %w", r.Key, err)
	}
	jobs, err := parseQueue(out)
	if err != nil {
		return "", fmt.Errorf("submit job %s: %w", r.Key, err)
	}
	if id := present(jobs, r); id != "" {
		return id, nil
	}
	env := r.Env
	if env == nil {
		env = os.Environ()
	}
	out, err = e.execute(ctx, Command{Argv: argv, Env: submitEnvironment(env), Stdin: script(r)})
	if err != nil {
		return "", fmt.Errorf("submit job %s: %w", r.Key, withRemedy(err, r.Place))
	}
	id, err := parseSubmitted(out)
	if err != nil {
		return "", fmt.Errorf("submit job %s: %w", r.Key, err)
	}
	return id, nil
}

// tooLarge lists parts of the messages of sbatch when no node has what was requested.
var tooLarge = []string{"Requested node configuration is not available", "CPU count per node can not be satisfied", "Memory specification can not be satisfied"}

// withRemedy adds to a refusal because of the size of a place how to ask for less: sinfo counts the cores and the memory that nodes
// reserve for the system.
func withRemedy(err error, p engine.Place) error {
	text := err.Error()
	if (p.CPUs == 0 && p.Memory == 0) || !errors.Is(err, engine.ErrRefused) || !slices.ContainsFunc(tooLarge, func(part string) bool { return strings.Contains(text, part) }) {
		return err
	}
	return fmt.Errorf("%w (requested on each node: %d CPUs, %.4g GiB; if nodes reserve a part of theirs, or the partition limits what a job gets, request less by --cpus and --memory)",
		err, p.CPUs, float64(p.Memory))
}

// present returns the number of a pending or running job of the request, "" if none exists. That of an array is the
// number of its first task.
func present(jobs []engine.Status, r engine.Request) string {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(s engine.Status) bool { return s.Key != r.Key })
	for _, job := range slices.Backward(jobs) {
		if job.State != engine.Ended && job.State != engine.Ending {
			if r.Tasks > 0 {
				return jobs[0].ID
			}
			return job.ID
		}
	}
	return ""
}

// submission returns the command line of sbatch. Options of the site are last, so that they prevail, except those that request
// GPUs: if the place has any, it states type and number.
func submission(r engine.Request) ([]string, error) {
	if err := checkRequest(r); err != nil {
		return nil, err
	}
	output := strings.ReplaceAll(r.Output, "%", "%%")
	if r.Tasks > 0 {
		output += ".%a"
	}
	argv := []string{"sbatch", "--parsable", "--export=ALL", "--job-name=" + r.Key, "--chdir=" + r.Dir,
		"--output=" + output, "--open-mode=append", "--no-requeue"}
	add := func(option string, value any) { argv = append(argv, fmt.Sprintf("--%s=%v", option, value)) }
	if r.Tasks > 0 {
		tasks := fmt.Sprintf("0-%d", r.Tasks-1)
		if r.Parallel > 0 {
			tasks += fmt.Sprintf("%%%d", r.Parallel)
		}
		add("array", tasks)
	}
	if r.Comment != "" {
		add("comment", r.Comment)
	}
	extra := r.Extra
	add("nodes", max(1, r.Place.Nodes))
	add("ntasks-per-node", 1)
	if r.Place.CPUs > 0 {
		add("cpus-per-task", r.Place.CPUs)
	}
	if r.Place.Memory > 0 {
		add("mem", fmt.Sprintf("%.0fM", math.Ceil(float64(r.Place.Memory)*1024)))
	}
	if r.Place.GPUs > 0 {
		own := append(slices.DeleteFunc([]string{"gpu", r.Place.GPUType}, func(s string) bool { return s == "" }), strconv.Itoa(r.Place.GPUs))
		others, rest := withoutGPUs(extra)
		add("gres", strings.Join(append([]string{strings.Join(own, ":")}, others...), ","))
		extra = rest
	}
	if r.Place.Partition != "" {
		add("partition", r.Place.Partition)
	}
	if len(r.Place.Avoid) > 0 {
		add("exclude", strings.Join(r.Place.Avoid, ","))
	}
	if r.Unlimited {
		add("time", "UNLIMITED")
	} else if r.TimeLimit > 0 {
		add("time", roundUp(r.TimeLimit, time.Minute)) // minutes
	}
	if r.Warn > 0 {
		const most = 65535 * time.Second
		add("signal", fmt.Sprintf("B:USR1@%d", roundUp(min(r.Warn, most), time.Second)))
	}
	return append(argv, extra...), nil
}

// withoutGPUs returns the generic resources other than GPUs that options request, of which sbatch takes one list, and the options
// that request neither these nor GPUs.
func withoutGPUs(options []string) (others, rest []string) {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case name == "--gres":
			others = append(others, slices.DeleteFunc(splitOutside(value), func(item string) bool {
				kind, _, _ := strings.Cut(strings.TrimPrefix(item, "gres/"), ":")
				return kind == "gpu"
			})...)
		case name == "--gpus" || name == "--gpus-per-node" || name == "--gpus-per-task" || strings.HasPrefix(o, "-G"):
		default:
			rest = append(rest, o)
		}
	}
	return others, rest
}

// roundUp returns the number of units that d > 0 takes.
func roundUp(d, unit time.Duration) int64 { return int64((d-1)/unit) + 1 }

// checkRequest returns all reasons why a request cannot be expressed as a batch job.
func checkRequest(r engine.Request) error {
	errs := wording.Problems{checkKey(r.Key)}
	for _, path := range []struct{ what, value string }{{"program", first(r.Argv)}, {"working directory", r.Dir}, {"output", r.Output}} {
		errs.If(!filepath.IsAbs(path.value), "%s %q is not an absolute path", path.what, path.value)
	}
	errs.If(strings.ContainsAny(r.Output, "\\\n"), "output %q contains a backslash or a line break, which sbatch interprets", r.Output)
	for _, text := range slices.Concat(r.Argv, []string{r.Dir, r.Output, r.Comment}, r.Place.Avoid, r.Extra) {
		errs.If(strings.ContainsRune(text, 0), "%q contains a zero byte", text)
	}
	p := r.Place
	errs.If(p.Nodes < 0 || p.GPUs < 0 || p.CPUs < 0 || !(p.Memory >= 0) || r.TimeLimit < 0 || r.Warn < 0 || r.Tasks < 0 || r.Parallel < 0, "a negative amount is requested")
	for _, option := range r.Extra {
		errs = append(errs, checkOption(option))
	}
	if err := errors.Join(errs...); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

func first(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0]
}

// reserved lists the options of sbatch that a site's options must not contain: with them the job could not be found by
// its name, or it would not be one job whose number is returned at once, with one supervisor on each of its nodes.
var reserved = []struct{ long, short string }{
	{"--job-name", "-J"}, {"--output", "-o"}, {"--array", "-a"}, {"--wait", "-W"}, {"--wrap", ""},
	{"--test-only", ""}, {"--clusters", "-M"}, {"--nodes", "-N"}, {"--ntasks", "-n"}, {"--ntasks-per-node", ""},
}

// option matches a whole option, as opposed to a separate value, which sbatch could take for the name of a script.
var option = regexp.MustCompile(`^(--[a-z][a-z0-9-]+(=(?s:.*))?|-[A-Za-z].*)$`)

// checkOption returns an error if an option of the site cannot be passed on. Long options may be abbreviated.
func checkOption(text string) error {
	if !option.MatchString(text) {
		return fmt.Errorf("option %q: write options of sbatch with their values, as in --account=NAME", text)
	}
	name, _, _ := strings.Cut(text, "=")
	for _, r := range reserved {
		if strings.HasPrefix(name, "--") && strings.HasPrefix(r.long, name) || r.short != "" && strings.HasPrefix(text, r.short) {
			return fmt.Errorf("option %q: %s is set by this program", text, r.long)
		}
	}
	return nil
}

// CheckOptions returns an error if options of the site cannot be passed on, or sbatch refuses them: unknown ones, and
// accounts, QOS, reservations and values that do not exist. It asks sbatch without submitting a job, and returns no error
// if that does not answer, or could not run the job at present.
func (e *Engine) CheckOptions(ctx context.Context, options []string) error {
	for _, o := range options {
		if err := checkOption(o); err != nil {
			return err
		}
	}
	if len(options) == 0 {
		return nil
	}
	_, err := e.execute(ctx, Command{Argv: append([]string{"sbatch", "--test-only", "--nodes=1", "--output=/dev/null"}, options...), Env: submitEnvironment(os.Environ()), Stdin: "#!/bin/sh\n"})
	if text := fmt.Sprint(err); errors.Is(err, engine.ErrRefused) && (strings.Contains(strings.ToLower(text), "invalid") || strings.Contains(text, "option")) {
		return err
	}
	return nil
}

// Limit returns the time limit among options of the site, which are passed on; 0: none, or one that sbatch will refuse.
func (e *Engine) Limit(options []string) (limit time.Duration) {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		if strings.HasPrefix(o, "-t") {
			name, value = "--time", o[2:]
		}
		if name != "--time" {
			continue
		}
		if minutes, err := strconv.ParseUint(value, 10, 31); err == nil {
			limit = time.Duration(minutes) * time.Minute
		} else if d, err := parseDuration(value); err == nil && d != nil {
			limit = *d
		}
	}
	return limit
}

// script returns the batch script. The supervisor replaces the shell, so that signals to the batch script reach it. On
// several nodes srun replaces it, which starts a supervisor on each and passes signals on. A supervisor that fails does not
// end the others: that is their own decision.
func script(r engine.Request) string {
	words := make([]string, len(r.Argv))
	for i, w := range r.Argv {
		words[i] = shellQuote(w)
	}
	if r.Tasks > 0 {
		words = append(words, `"$SLURM_ARRAY_TASK_ID"`)
	}
	if n := r.Place.Nodes; n > 1 {
		each := []string{"srun", fmt.Sprintf("--nodes=%d", n), fmt.Sprintf("--ntasks=%d", n), "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--input=none"}
		if r.Place.CPUs > 0 { // not inherited from sbatch since 22.05
			each = append(each, fmt.Sprintf("--cpus-per-task=%d", r.Place.CPUs))
		}
		words = append(each, words...)
	}
	return "#!/bin/sh\ncd -- " + shellQuote(r.Dir) + " || exit 1\nexec " + strings.Join(words, " ") + "\n"
}

// shellQuote returns a word that a POSIX shell reads as s.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// parseSubmitted returns the number of the job from the output of sbatch --parsable: NUMBER or NUMBER;CLUSTER, possibly
// after lines of a site's plugin.
func parseSubmitted(out string) (string, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, _, _ := strings.Cut(strings.TrimSpace(lines[len(lines)-1]), ";")
	if checkID(id) != nil {
		return "", fmt.Errorf("sbatch printed %q, not the number of a job", out)
	}
	return id, nil
}
