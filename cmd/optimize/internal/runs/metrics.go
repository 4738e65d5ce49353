package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/tracker"
)

// metricsOptions holds the flags of `metrics`.
type metricsOptions struct {
	cli.Options
	listen, textfile string
	every            time.Duration
}

func metricsCommand(e *cli.Env) *cobra.Command {
	o := &metricsOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Runs, Use: "metrics", Short: "Export the running and just ended runs as Prometheus metrics", Args: cobra.NoArgs,
		Long: `Export the runs of the state directory as Prometheus metrics: cost, time, progress, predictions, limits, GPU utilization,
restarts, waiting time. The series of a run end ten minutes after the run. Without a flag they are printed once.

--listen serves them at /metrics; --textfile writes them to a file of node_exporter's textfile collector, once or at an
interval. docs/grafana.json is a dashboard.`,
		Example: `  optimize metrics
  optimize metrics --listen 127.0.0.1:9788
  optimize metrics --textfile /var/lib/node_exporter/optimize.prom --every 15s`,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	fs.StringVar(&o.listen, "listen", "", "serve at this `ADDRESS`, such as 127.0.0.1:9788, until interrupted")
	fs.StringVar(&o.textfile, "textfile", "", "write to `FILE.prom`, replaced as a whole")
	cli.DurationVar(fs, &o.every, "every", "with --textfile: write it again at this interval until interrupted")
	return cmd
}

func (o *metricsOptions) run() error {
	err := o.Check(cli.Rule{If: o.listen != "", Flags: "textfile every", Conflict: "--listen", Reason: "each request reads the runs"},
		cli.Rule{If: o.textfile == "", Flags: "every", Requires: "--textfile"})
	err = errors.Join(err, o.Want("textfile", filepath.Ext(o.textfile) == ".prom", "a name that ends in .prom, as node_exporter reads no other"),
		o.Want("every", o.every >= time.Second, "1s or more"))
	if o.JSON {
		err = errors.Join(err, errors.New("metrics cannot be combined with --json: they have the format of Prometheus"))
	}
	if err != nil {
		return cli.Usage(err)
	}
	reg := tracker.NewMetrics(o.State(), o.Clock.Now)
	switch {
	case o.listen != "":
		return o.serve(reg)
	case o.textfile != "":
		return o.write(reg)
	}
	families, err := reg.Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(o.Stdout, family); err != nil {
			return err
		}
	}
	return nil
}

// write writes the file of the textfile collector, once or at an interval. A failed writing is reported and tried again.
func (o *metricsOptions) write(reg *prometheus.Registry) error {
	put := func() error {
		if err := prometheus.WriteToTextfile(o.Path(o.textfile), reg); err != nil {
			return fmt.Errorf("write metrics to %s: %w", o.textfile, regular.Reason(err))
		}
		return nil
	}
	err := put()
	if o.every == 0 {
		return err
	}
	warning := func(err error) {
		if err != nil {
			warn(o.Env, []string{err.Error()})
		}
	}
	warning(err)
	signals, stop := o.Listen()
	defer stop()
	ticker := time.NewTicker(o.every)
	defer ticker.Stop()
	for {
		select {
		case <-signals:
			return nil
		case <-ticker.C:
			warning(put())
		}
	}
}

// serve answers requests for /metrics until a signal.
func (o *metricsOptions) serve(reg *prometheus.Registry) error {
	address, err := listenAddress("listen", o.listen)
	if err != nil {
		return cli.Usage(err)
	}
	l, err := listenAt("listen", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", tracker.MetricsHandler(reg))
	mux.Handle("GET /{$}", http.RedirectHandler("/metrics", http.StatusFound))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	signals, stop := o.Listen()
	defer stop()
	if !o.Quiet {
		fmt.Fprintf(o.Stderr, "metrics: http://%s/metrics\n", l.Addr())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics at %s: %w", l.Addr(), err)
	case <-signals:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx) // slow readers are cut off
	return nil
}
