package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/analysis"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
	"trainopt/optimizer/serve"
	"trainopt/optimizer/tracker"
	"trainopt/simulator/replay"
)

// defaultListen is the address of the page without --listen.
const defaultListen = "127.0.0.1:8787"

// serveOptions holds the flags of `serve`.
type serveOptions struct {
	cli.Options
	listen  string
	private bool
	hosts   []string
	results []string
}

func serveCommand(e *cli.Env) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Runs, Use: "serve", Short: "Serve a local page of the runs: live, to compare, stop, resume and change", Args: cobra.NoArgs,
		Long: `Serve a local web page of the runs of the state directory, until Ctrl-C.

It lists all runs, follows a run while it trains (progress, predicted finish, cost against budget, utilization, decisions,
output), compares runs, shows wasted spend, and opens result files of simulations and comparisons. The same data is
available as JSON below /api, and as Prometheus metrics at /metrics.

The page listens on this machine only, and reading needs no password. Stopping, resuming and changing a run requires the
token in the file serve.token of the state directory; the printed link logs a browser in. Any other address requires
--private, with which reading requires the token too; the connection is not encrypted, so prefer a tunnel
(ssh -L 8787:127.0.0.1:8787 HOST).`,
		Example: `  optimize serve
  optimize serve --listen 127.0.0.1:0
  optimize serve --results simulations/
  optimize --train train.py --serve`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.Options = e.Options(cmd)
	o.Flags.StringVar(&o.listen, "listen", defaultListen, "`ADDRESS` of the page, HOST:PORT; port 0: any free one")
	o.Flags.BoolVar(&o.private, "private", false, "require the token for reading too")
	o.Flags.StringArrayVar(&o.hosts, "hostname", nil, "`NAME` under which browsers open the page, beside its address, localhost and the name of this machine (repeatable)")
	o.Flags.StringArrayVar(&o.results, "results", nil, "`DIR` with results of simulate and compare, written with -o FILE.html or FILE.json (repeatable)")
	return cmd
}

// run serves the page until the user interrupts it, which is its normal end.
func (o *serveOptions) run() error {
	if slices.Contains(o.hosts, "") {
		return cli.Usagef("--hostname: the name is empty")
	}
	p, err := openPage(o.Env, "listen", o.listen, o.private, o.hosts, o.results)
	if err != nil {
		return err
	}
	if o.JSON {
		if err := o.PrintJSON(map[string]any{"schema": 1, "url": p.address, "login_url": p.login(), "token_file": p.tokenFile, "private": o.private}); err != nil {
			return err
		}
	} else {
		err := o.Print(fmt.Sprintf("page:   %s\nlog in: %s\n        (for stop, resume and changes; keep this link to yourself)\n", p.address, p.login()))
		if err != nil {
			return err
		}
	}
	signals, stop := o.Listen()
	defer stop()
	select {
	case <-signals:
		p.close()
		return nil
	case err := <-p.ended:
		return fmt.Errorf("serve %s: %w", p.address, err)
	}
}

// servedPage is a page that is being served.
type servedPage struct {
	address, token, tokenFile string
	server                    *http.Server
	pages                     *serve.Server
	ended                     chan error
}

// login returns the address that logs a browser in.
func (p *servedPage) login() string { return p.address + "login?token=" + p.token }

// close ends the page: open streams at once, other requests within a second.
func (p *servedPage) close() {
	p.pages.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
}

// openPage starts to serve the page of the state directory. flag is the name of the flag that gave the address.
func openPage(e *cli.Env, flag, listen string, private bool, hosts, results []string) (*servedPage, error) {
	address, err := listenAddress(flag, listen)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if host, _, _ := net.SplitHostPort(address); !private && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return nil, cli.Usagef("--%s %s: other machines could read all runs; optimize serve --private requires the token for reading too", flag, listen)
	}
	folders := make([]string, len(results))
	for i, dir := range results {
		folders[i] = e.Path(dir)
		if info, err := os.Stat(folders[i]); err != nil || !info.IsDir() {
			return nil, cli.Usagef("--results %s: not a folder", dir)
		}
	}
	token, err := serve.Token(e.State())
	if err != nil {
		return nil, err
	}
	l, err := listenAt(flag, address)
	if err != nil {
		return nil, err
	}
	p := &servedPage{token: token, tokenFile: filepath.Join(e.State(), serve.TokenFile), ended: make(chan error, 1), address: "http://" + shownHost(l.Addr()) + "/"}
	p.pages = serve.New(serve.Options{StateDir: e.State(), Token: token, Private: private, Hosts: hosts, Results: folders, Analyze: analyzeAll(e), Audit: auditCluster(e), Control: controlOf(e),
		Metrics: tracker.MetricsHandler(tracker.NewMetrics(e.State(), e.Clock.Now))})
	p.server = p.pages.Server()
	go func() { p.ended <- p.server.Serve(l) }()
	return p, nil
}

// listenAt listens at an address.
func listenAt(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, cli.Usagef("--%s %s: the address is in use; --%s=127.0.0.1:0 takes a free port", flag, address, flag)
	}
	if err != nil {
		return nil, cli.Usagef("--%s %s: %w", flag, address, err)
	}
	return l, nil
}

// listenAddress checks an address. A port alone is one of this machine.
func listenAddress(flag, listen string) (string, error) {
	if !strings.Contains(listen, ":") {
		listen = "127.0.0.1:" + listen
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("--%s %q: want HOST:PORT, as in %s", flag, listen, defaultListen)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", fmt.Errorf("--%s %q: port %q: want a number from 0 to 65535", flag, listen, port)
	}
	return net.JoinHostPort(host, port), nil
}

// shownHost returns the host and port at which a browser on this machine reaches a listener.
func shownHost(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return net.JoinHostPort(name, fmt.Sprint(tcp.Port))
}

// analyzeAll returns the analysis of the whole history as a document.
func analyzeAll(e *cli.Env) func() (page.Document, error) {
	return func() (page.Document, error) {
		entries, notes, err := e.History(history.Filter{})
		if err != nil {
			return page.Document{}, err
		}
		a := analysis.New(analysis.Options{})
		a.AddEntries(entries)
		for _, n := range notes {
			a.Note(n)
		}
		return a.Analyze().Document(), nil
	}
}

// auditDraws is the number of simulations of each policy in the comparison of the page.
const auditDraws = 10

// auditCluster returns the audit of the cluster of the state directory as a document.
func auditCluster(e *cli.Env) func(context.Context) (page.Document, error) {
	return func(ctx context.Context) (page.Document, error) {
		day, err := readDay(e.State())
		if err != nil {
			return page.Document{}, err
		}
		audit, err := day.Audit(ctx, replay.Options{Draws: auditDraws})
		if err != nil {
			return page.Document{}, err
		}
		return audit.Document(), nil
	}
}

// controlOf returns the changes that the page can make.
func controlOf(e *cli.Env) serve.Control {
	return serve.Control{
		Stop: func(ctx context.Context, dir string) (string, error) {
			text, err := newAgent(e, nil).StopRun(ctx, dir, -1)
			if err == nil {
				history.SyncStateDir(filepath.Dir(filepath.Dir(dir)), 5*time.Second)
			}
			return text, err
		},
		Resume: func(ctx context.Context, dir string) (string, error) { return resumeDetached(ctx, e, dir) },
		Prefer: run.Prefer,
	}
}

// agentLog is the file of a run directory with the messages of an agent that the page started.
const agentLog = "agent.log"

// resumeWithin is the time that an agent has to take over a run.
const resumeWithin = 15 * time.Second

// sameEnvironment refuses a run that would continue without a variable of its first start: an agent that the page starts has the
// environment of the server.
func sameEnvironment(e *cli.Env, dir string) error {
	lacking, err := newAgent(e, nil).LackingEnvironment(dir)
	remedy := "resume in the shell of the training: optimize runs resume " + filepath.Base(dir)
	switch n := len(lacking); {
	case err != nil:
		return fmt.Errorf("the environment of the training is not known: %w; %s", err, remedy)
	case n > maxLacking:
		lacking = append(lacking[:maxLacking:maxLacking], fmt.Sprintf("%d more", n-maxLacking))
	case n == 0:
		return nil
	}
	return fmt.Errorf("the environment of the server differs from the training's in %s: %s", cli.OneLine(strings.Join(lacking, ", ")), remedy)
}

// maxLacking is the maximum number of variables that a refusal names.
const maxLacking = 10

// resumeDetached starts an agent that resumes a run, in a session of its own so that it outlives the page.
func resumeDetached(ctx context.Context, e *cli.Env, dir string) (string, error) {
	id := filepath.Base(dir)
	fail := func(err error) (string, error) { return "", fmt.Errorf("resume %s: %w", id, err) }
	if h := journal.HolderOf(dir); h.Alive() { // one that cannot be seen may be dead: the lock decides
		return fail(fmt.Errorf("an agent is working on it: %s", h))
	}
	if err := sameEnvironment(e, dir); err != nil && !launch.Living(dir) { // a living job is only adopted
		return fail(err)
	}
	log, err := os.OpenFile(filepath.Join(dir, agentLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command(e.Self[0], "--state-dir", filepath.Dir(filepath.Dir(dir)), "runs", "resume", dir)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = e.Environ, e.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	limit := time.NewTimer(resumeWithin)
	defer limit.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				return id + ": resumed, and ended", nil
			}
			return fail(errors.New(lastLineFrom(filepath.Join(dir, agentLog), from, err)))
		case <-poll.C:
			if rec, err := journal.ReadRecord(dir); err == nil && rec.State == journal.Running && journal.HolderOf(dir) != nil {
				return id + ": resumed", nil
			}
		case <-limit.C:
			return id + ": the agent is starting; its messages are in " + agentLog, nil
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

// lastLineFrom returns the last line that an agent wrote, or its exit if it wrote none.
func lastLineFrom(path string, from int64, exit error) string {
	data, err := os.ReadFile(path)
	if err != nil || int64(len(data)) <= from {
		return exit.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data[from:]), []byte("\n"))
	last := strings.TrimPrefix(string(lines[len(lines)-1]), "optimize: ")
	if last == "" {
		return exit.Error()
	}
	return cli.OneLine(last)
}
