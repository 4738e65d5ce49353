package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/analysis"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/report/page"
)

// liveAccounting is the value of --sacct that calls sacct.
const liveAccounting = "live"

// batchOptions holds the flags of `analyze` for the accounting of batch jobs.
type batchOptions struct {
	sacct, since, user string
}

// rules returns the flags that cannot be combined.
func (b *batchOptions) rules() []cli.Rule {
	return []cli.Rule{
		{If: b.sacct == "", Flags: "since user", Requires: "--sacct"},
		{If: b.sacct != "", Except: "sacct since user format output rates instance gpu-hour cpu-hour gib-hour", Conflict: "--sacct",
			Reason: "the accounting contains batch jobs, not training logs"},
		{If: b.sacct != "" && b.sacct != liveAccounting, Flags: "since", Requires: "--sacct live", Reason: "a file contains what was requested from sacct"},
	}
}

// continued breaks a list into lines that a shell joins again.
func continued(list string) string {
	lines := []string{""}
	for _, item := range strings.SplitAfter(list, ",") {
		if last := len(lines) - 1; len(lines[last])+len(item) > 90 {
			lines = append(lines, item)
		} else {
			lines[last] += item
		}
	}
	return strings.Join(lines, "\\\n")
}

// batchJobs writes the report on the batch jobs of an accounting.
func (o *analyzeOptions) batchJobs(vals *cli.Values, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("analyze --sacct %s cannot be combined with %s: analyze logs and runs separately", o.sacct, strings.Join(args, " "))
	}
	rates, err := o.rates(vals)
	if err != nil {
		return cli.Usage(err)
	}
	text, err := o.accounting()
	if err != nil {
		return cli.Usage(fmt.Errorf("--sacct %s: %w", o.sacct, err))
	}
	defer text.Close()
	options := analysis.SizingOptions{Rates: rates}
	if o.user != "all" {
		options.User = o.user
	}
	lines, err := regular.Gunzip(text)
	if err != nil {
		return cli.Usage(fmt.Errorf("--sacct %s: %w", o.sacct, err))
	}
	jobs, err := slurm.ReadAccounting(lines)
	if bad := (*slurm.BadLines)(nil); errors.As(err, &bad) {
		options.Bad, options.FirstBad = bad.Count, bad.First
	} else if err != nil {
		return cli.Usage(fmt.Errorf("--sacct %s: %w", o.sacct, err))
	}
	report := analysis.NewSizing(jobs, options)
	if len(report.Groups) == 0 && options.Bad > 0 {
		return cli.Usagef("analyze --sacct %s: none of %s could be read, first: %s", o.sacct, page.Plural(options.Bad, "line"), cli.OneLine(options.FirstBad[0]))
	}
	if len(report.Groups) == 0 {
		user := ""
		if options.User != "" {
			user = " of user " + options.User
		}
		return cli.Usagef("analyze --sacct %s: no jobs%s; ask sacct for another period or user", o.sacct, user)
	}
	return o.Write(o.format.File, "analysis", func(w io.Writer) error { return report.Render(w, o.format.Name) })
}

// accounting opens the accounting named by --sacct.
func (o *analyzeOptions) accounting() (io.ReadCloser, error) {
	switch o.sacct {
	case "-":
		return io.NopCloser(o.Stdin), nil
	case liveAccounting:
		out, err := o.callSacct()
		return io.NopCloser(bytes.NewReader(out)), err
	}
	return os.Open(o.Path(o.sacct)) // a pipe of the shell is possible too
}

// sacctTimeout bounds sacct, which may take minutes for a long period of a large site.
const sacctTimeout = 5 * time.Minute

var (
	// sacctTime matches the times that sacct accepts: 2026-11-01, 2026-11-01T08:00, now-30days.
	sacctTime = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z:./+-]*$`)
	// userNames matches names of users, separated by commas.
	userNames = regexp.MustCompile(`^[0-9A-Za-z_.][0-9A-Za-z_.@$-]*(,[0-9A-Za-z_.][0-9A-Za-z_.@$-]*)*$`)
)

// callSacct returns the output of sacct for the period and the user.
func (o *analyzeOptions) callSacct() ([]byte, error) {
	since := cmp.Or(o.since, "now-7days")
	if !sacctTime.MatchString(since) {
		return nil, fmt.Errorf("--since %q: want a time that sacct accepts, such as 2026-11-01 or now-30days", since)
	}
	args := []string{"--duplicates", "--parsable2", "--starttime=" + since, "--format=" + slurm.AccountingFields}
	switch {
	case o.user == "all":
		args = append(args, "--allusers")
	case o.user != "" && !userNames.MatchString(o.user):
		return nil, fmt.Errorf("--user %q: want the name of a user, or all", o.user)
	case o.user != "":
		args = append(args, "--user="+o.user)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sacctTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sacct", args...)
	// Variables that change the output are left out; the parser expects UTC.
	cmd.Env = slices.DeleteFunc(slices.Clone(o.Environ), func(entry string) bool {
		return strings.HasPrefix(entry, "SACCT_") || strings.HasPrefix(entry, "SLURM_TIME_FORMAT=") || strings.HasPrefix(entry, "TZ=") || strings.HasPrefix(entry, "LC_")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch words := strings.Join(strings.Fields(cli.OneLine(errs.String())), " "); {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("sacct is not installed here (Debian: slurm-client): run it on a login node and name its output")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("sacct did not answer within %s: ask for a shorter period with --since", sacctTimeout)
	case err != nil && words != "":
		return nil, fmt.Errorf("sacct: %w: %s", err, words)
	case err != nil:
		return nil, fmt.Errorf("sacct: %w", err)
	}
	return out, nil
}
