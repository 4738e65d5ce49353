package runs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

type submitOptions struct {
	cli.Options
	train  string
	user   string
	weight float64
	wait   bool
}

// submitSettings are the settings of train that a submitted job has.
var submitSettings = map[string]string{
	"deadline": "end within `DUR` of the submission, e.g. 90m (seconds if a plain number)", "budget": "", "prefer": "",
	"gpus": "devices for the job, `A` or A:B; policies that choose the number take up to B (default 1)",
	"cpus": "CPUs for the job on a cluster without GPUs, `A` or A:B; rounded up to slots", "memory": "", "epochs": "", "steps": "", "dataset": "", "seed": "",
	"log": "", "log-format": "", "progress-pattern": "", "observe": "", "pty": "", "resumable": "", "grace": "", "max-restarts": "", "knob": "", "python": "",
	"gpu-hour": "", "cpu-hour": "", "gib-hour": "", "billing-hour": "", "min-throughput": "", "max-memory": "", "interval": "",
}

func submitCommand(e *cli.Env) *cobra.Command {
	o := &submitOptions{}
	cmd := &cobra.Command{
		Use:   "submit [SCRIPT] [flags] [-- SCRIPT ARGS… | -- COMMAND ARGS…]",
		Short: "Submit a training to the scheduler",
		Long: `Submit a training to the scheduler of this state directory, and print the number of the job. Everything after -- is passed to
the script. Without a running server, the job waits for one.`,
		Example: `  optimize cluster submit --train train.py --deadline 8h --budget 5 -- --lr 0.1
  optimize cluster submit --train train.py --gpus 1:4 --weight 2 --wait`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.Options = e.Options(cmd)
	f := o.Flags
	f.StringVar(&o.train, "train", "", "the training `SCRIPT`")
	f.StringVar(&o.user, "user", "", "`NAME` of the user on whose behalf the job runs (default: your own)")
	f.Float64Var(&o.weight, "weight", 1, "priority for policies that know one; 1 is normal")
	f.BoolVar(&o.wait, "wait", false, "wait for the end of the job, and exit with its code")
	cli.AddSettings(f, submitSettings)
	return cmd
}

func (o *submitOptions) run(cmd *cobra.Command, args []string) error {
	spec, err := o.spec(cmd, args)
	if err != nil {
		return cli.Usage(err)
	}
	id, err := cluster.Submit(o.State(), spec)
	if errors.Is(err, cluster.ErrRefused) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	server, alive, _ := cluster.ReadServer(o.State())
	if !o.JSON {
		err = o.Print(fmt.Sprintf("%d\n", id))
	} else if !o.wait {
		err = o.PrintJSON(map[string]any{"schema": 1, "job": id, "served": alive})
	}
	if err != nil {
		return err
	}
	if alive && server.Draining {
		fmt.Fprintf(o.Stderr, "the server of %s admits no more jobs: the job waits for the next one, started by optimize cluster serve\n", o.State())
	}
	if !alive {
		fmt.Fprintf(o.Stderr, "no server runs for %s: the job waits until one is started by optimize cluster serve\n", o.State())
	}
	if o.wait {
		return o.await(id)
	}
	return nil
}

// spec returns the job of the flags and arguments.
func (o *submitOptions) spec(cmd *cobra.Command, args []string) (cluster.Spec, error) {
	before, rest := args, []string(nil)
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		before, rest = args[:at], args[at:]
	}
	if o.train == "" && len(before) > 0 {
		o.train, before = before[0], before[1:]
	}
	if len(before) > 0 {
		return cluster.Spec{}, fmt.Errorf("%q: want one script; arguments of the script follow --", strings.Join(before, " "))
	}
	if o.train == "" && len(rest) == 0 {
		return cluster.Spec{}, errors.New("nothing to train: name a script by --train SCRIPT, or a command after --")
	}
	if !(o.weight > 0 && o.weight < 1e6) {
		return cluster.Spec{}, fmt.Errorf("--weight %g: want a number above 0 and below 1e6", o.weight)
	}
	if strings.ContainsFunc(o.user, unicode.IsControl) {
		return cluster.Spec{}, fmt.Errorf("--user %q: want a name in one line, without control characters", o.user)
	}
	vals, err := o.ProjectSettings(o.Flags)
	if err != nil {
		return cluster.Spec{}, err
	}
	cfg, err := config(o.Options, vals)
	if err != nil {
		return cluster.Spec{}, err
	}
	cfg.Train, cfg.Args, cfg.Engine, cfg.EngineArgs = o.train, rest, "", nil
	if err := cfg.WithDefaults().Validate(); err != nil {
		return cluster.Spec{}, err
	}
	any := resources.Limits{MemoryMax: math.MaxFloat32} // how much there is depends on the devices
	if err := any.Restrict(resources.Ranges{Memory: cfg.Memory}); err != nil {
		return cluster.Spec{}, err
	}
	argv, ins, err := inspect.Resolve(cfg.Train, cfg.Args, inspect.ResolveOptions{Python: cfg.Python, Dir: cfg.Dir})
	if err != nil {
		return cluster.Spec{}, err
	}
	if cfg.Train == "" { // programs by name are found here: the server may have another PATH
		cfg.Args = argv
	} else if strings.EqualFold(filepath.Ext(cfg.Train), ".py") {
		cfg.Python = argv[0]
	}
	cfg.Name = run.NameOf(cfg.Train, argv)
	command := inspect.ReadCommand(argv, cfg.Dir)
	if cfg.Resume == "auto" && ins.Resumable.Value != "yes" && command.Resumption(command.Mapping(cfg.Knobs)).How == inspect.ResumeNone {
		fmt.Fprintf(o.Stderr, "%s is not known to load a checkpoint, so that the job keeps its devices until it ends. If it loads one when it starts, submit it with --resumable yes; if by an argument, with --knob resume=FLAG={path}\n", cfg.Name)
	}
	s := cluster.Spec{Distributed: command.Distributed(), Submitted: time.Now().UTC(), BootID: resources.BootID(), Uptime: run.SystemClock{}.Monotonic().Seconds(), User: cmp.Or(o.user, userName(o.Env)), Weight: o.weight, Config: cfg}
	text, flag := cfg.GPUs, "--gpus"
	if (text == "" || text == "0") && cfg.CPUs != "" {
		text, flag, s.CPUs = cfg.CPUs, "--cpus", true
	}
	if text != "" {
		r, err := resources.ParseRange(text, resources.Range{Min: 1, Max: 1 << 20})
		if err != nil {
			return s, fmt.Errorf("%s: %w", flag, err)
		}
		if r.Max < 1 {
			return s, fmt.Errorf("%s %s: a job of a cluster holds at least one device", flag, text)
		}
		s.Min, s.Max = max(1, r.Min), r.Max
	}
	return s, nil
}

// await waits for the end of a job.
func (o *submitOptions) await(id int) error {
	ctx, stop := o.UntilSignal()
	defer stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		j, _, err := cluster.ReadJob(o.State(), id)
		if j == nil {
			return err
		}
		if j.State.Ended() {
			if o.JSON {
				if err := o.PrintJSON(j); err != nil {
					return err
				}
			}
			return outcome(j)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cli.Interrupted(ctx).Exitf("job %d continues; optimize cluster cancel %d stops it", id, id)
		}
	}
}

// outcome returns the exit code of a job that has ended, as train would return it.
func outcome(j *cluster.Job) error {
	// Without a run: it never had devices.
	code := map[cluster.State]run.Code{cluster.Failed: run.CodeInfeasible, cluster.Stopped: run.CodeGuard, cluster.Cancelled: run.CodeTerminated}[j.State]
	if j.ExitCode != nil {
		code = run.Code(*j.ExitCode)
	}
	if code == run.CodeDone {
		return nil
	}
	why := ""
	if j.Reason != "" {
		why = ": " + j.Reason
	}
	return cli.ExitError{Code: code, Err: fmt.Errorf("job %d: %s%s", j.ID, j.State, why)}
}
