package runs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/resources"
	"trainopt/sla"
)

// makeConfig converts settings and the flags of train to a run.Config, with all problems in one error.
func makeConfig(o *trainOptions, v *cli.Values) (run.Config, error) {
	cfg, err := config(o.Options, v)
	cfg.DryRun, cfg.Explain = o.dryRun, o.explain
	if o.host != "" {
		err = errors.Join(err, describeHost(o, &cfg))
	}
	return cfg, err
}

// config converts settings to a run.Config, with all problems in one error.
func config(o cli.Options, v *cli.Values) (run.Config, error) {
	var errs []error
	shared, note := o.OtherStates()
	if note != "" {
		warn(o.Env, []string{note})
	}
	cfg := run.Config{
		Dir: o.Dir, StateDir: o.State(), Shared: shared,
		Planner: v.Text("rl.planner"), Agent: v.Text("rl.agent"), GPUs: v.Text("resource.gpus"), CPUs: v.Text("resource.cpus"), Memory: v.Text("resource.memory"),
		BatchSize: v.Text("resource.batch_size"), Epochs: v.Whole("resource.epochs", &errs), Dataset: v.Text("resource.dataset"),
		Seed: int64(v.Whole("resource.seed", &errs)), SeedGiven: v.Set("resource.seed"), Log: v.Text("monitor.log"), Format: v.Text("monitor.log_format"),
		Columns: v.Table("monitor.columns"), Pattern: v.Text("monitor.progress_pattern"), Offline: v.List("monitor.offline_logs"),
		Resume: run.Resumable(v.Text("engine.resumable")), Samples: v.Whole("rl.baseline_samples", &errs),
		Ratio: v.Number("rl.baseline_ratio", &errs), Interval: v.Length("monitor.interval", &errs),
		Every: v.Whole("rl.epoch_adjustment_frequency", &errs), Grace: v.Length("engine.grace", &errs),
		Restarts: v.Whole("engine.max_restarts", &errs), Python: v.Text("engine.python"),
		Steps: v.Whole("resource.steps", &errs), NumWorkers: v.Text("resource.num_workers"),
		PowerLimit: v.Text("resource.power_limit"), EnergyBudgetKWh: v.Number("resource.energy_budget", &errs), Observe: v.Text("monitor.observe"),
		PTY: v.Toggle("monitor.pty", &errs), Nodes: v.Whole("engine.nodes", &errs), Requeue: v.Toggle("engine.requeue", &errs),
	}
	none := func(key string, n *int) { // an explicit 0 means none rather than the default
		if v.Set(key) && *n == 0 {
			*n = -1
		}
	}
	none("rl.baseline_samples", &cfg.Samples)
	none("engine.max_restarts", &cfg.Restarts)
	positive := func(key, what string) {
		if d, err := cli.ParseDuration(v.Text(key)); v.Set(key) && err == nil && d == 0 { // other values are rejected above
			errs = append(errs, fmt.Errorf("%s 0: want a positive number%s", v.Source(key), what))
		}
	}
	positive("resource.energy_budget", " of kWh")
	positive("resource.epochs", "")
	positive("resource.steps", "")
	positive("monitor.interval", " of seconds, at least 0.05")
	positive("engine.grace", " of seconds")
	for i, path := range cfg.Offline {
		cfg.Offline[i] = o.Path(path)
		if _, err := os.Stat(cfg.Offline[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.Source("monitor.offline_logs"), err))
		}
	}
	if v.Set("rl.baseline_ratio") && cfg.Ratio == 0 {
		cfg.Samples = -1
	}
	if cfg.Agent != "" {
		cfg.Agent = o.Path(cfg.Agent)
		if _, err := os.Stat(cfg.Agent); err != nil {
			errs = append(errs, fmt.Errorf("--agent: %w", err))
		} else if cfg.Planner != "morl" {
			errs = append(errs, fmt.Errorf("--agent requires --planner morl, not %s", cfg.Planner))
		}
	}
	if formats := trainlog.Formats(); cfg.Format != "" && !slices.Contains(formats, cfg.Format) {
		errs = append(errs, fmt.Errorf("%s %q: unknown, want one of %s", v.Source("monitor.log_format"), cfg.Format, strings.Join(formats, ", ")))
	}
	if name := v.Text("engine.name"); name != "local" {
		if _, err := cli.OpenEngine(name); err != nil {
			errs = append(errs, fmt.Errorf("--engine %q: %w", name, err))
		}
		cfg.Engine, cfg.EngineArgs = name, v.List("engine.args")
		cfg.BillingHour = cost.USD(v.Number("cost.billing_hour", &errs))
	} else if v.Set("cost.billing_hour") {
		errs = append(errs, errors.New("--billing-hour requires --engine slurm"))
	} else if v.Set("engine.args") {
		errs = append(errs, errors.New("--engine-arg requires --engine slurm"))
	}
	var err error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	cfg.Notify, cfg.NotifyLink = targets(v, &errs), v.Text("monitor.notify_link")
	before := len(errs)
	if limits := v.Limits(&errs); len(errs) == before { // a value that is not a number has been reported
		cfg.SLA, err = sla.New(limits)
		add(err)
	}
	cfg.Preference, cfg.PreferenceGiven, err = v.Preference()
	add(err)
	cfg.Knobs, err = knobs(v)
	add(err)
	cfg.Rates, err = o.MachineRates(v)
	add(err)
	add(useSpot(o, v, &cfg))
	for i, into := range []**cost.USD{&cfg.GPUHour, &cfg.CPUHour, &cfg.GiBHour} {
		if key := cli.UnitPrices[i].Key; v.Set(key) {
			price := cost.USD(v.Number(key, &errs))
			*into = &price
			add(v.PriceConflict(key))
		}
	}
	return cfg, errors.Join(errs...)
}

// describeHost fills in the machine given by --host, with its prices unless others are given.
func describeHost(o *trainOptions, cfg *run.Config) error {
	host, rates, err := cost.DescribeHost(o.PriceDirs(), o.host, o.Path(o.host))
	if err != nil {
		return fmt.Errorf("--host: %w", err)
	}
	cfg.Described = &host
	if cfg.Rates == nil && cfg.GPUHour == nil && cfg.CPUHour == nil && cfg.GiBHour == nil {
		cfg.Rates = rates
	}
	return nil
}

// useSpot sets what a run on spot capacity needs: the offers between which it chooses, or the prices of this machine,
// and the metadata service that announces its end.
func useSpot(o cli.Options, v *cli.Values, cfg *run.Config) error {
	text, instance := v.Text("engine.spot_offers"), v.Text("cost.instance")
	var err error
	if text == "" && v.Set("engine.spot_offers") {
		return fmt.Errorf("%s: want auto, a FILE of offers, or traces of capacity", v.Source("engine.spot_offers"))
	}
	notice := instance
	if text != "" {
		if cfg.Spot, err = spotOffers(o, v, text); err != nil {
			return fmt.Errorf("%s: %w", v.Source("engine.spot_offers"), err)
		}
		cfg.SpotHere = text == "auto"
		if cfg.SpotHere {
			cfg.Rates, notice = &cfg.Spot.Zones[0].Rates, strings.TrimSuffix(instance, ":spot")+":spot"
			if cfg.Engine != "" {
				return fmt.Errorf("%s auto: jobs run on other machines with --engine %s: name its offers in a FILE", v.Source("engine.spot_offers"), cfg.Engine)
			}
		} else {
			if v.Set("rl.planner") && cfg.Planner != "static" {
				return fmt.Errorf("%s cannot be combined with %s: the run chooses the machine, and keeps its allocation", v.Source("engine.spot_offers"), v.Source("rl.planner"))
			}
			cfg.Planner, cfg.Rates, notice = "static", &cfg.Spot.OnDemand.Rates, ""
		}
	}
	cfg.SpotNotice, err = spotNotice(v, cfg.Engine, notice)
	return err
}

// spotOffers returns the offers of --spot: those of a file, or traces with the prices of the instance, or the prices of
// this machine.
func spotOffers(o cli.Options, v *cli.Values, text string) (*capacity.Offers, error) {
	for _, key := range []string{"cost.rates", "cost.gpu_hour", "cost.cpu_hour", "cost.gb_hour", "cost.billing_hour"} {
		if v.Set(key) {
			return nil, fmt.Errorf("cannot be combined with %s: both set the prices of the machine", v.Source(key))
		}
	}
	var traces []capacity.Trace
	var paths []string
	if text != "auto" {
		for _, name := range strings.Split(text, ",") {
			path := o.Path(strings.TrimSpace(name))
			if base := strings.TrimSuffix(path, ".gz"); !strings.HasSuffix(base, ".json") {
				if strings.Contains(text, ",") {
					return nil, fmt.Errorf("%s: several files are traces of capacity (.json, .json.gz)", name)
				}
				if v.Text("cost.instance") != "" {
					return nil, fmt.Errorf("cannot be combined with %s: the file states the prices", v.Source("cost.instance"))
				}
				offers, err := capacity.ReadOffers(path, o.Clock.Now())
				return &offers, err
			}
			list, err := capacity.Load(path)
			if err != nil {
				return nil, err
			}
			traces, paths = append(traces, list...), append(paths, path)
		}
	}
	instance := strings.TrimSuffix(v.Text("cost.instance"), ":spot")
	if instance == "" {
		return nil, errors.New("--instance CLOUD:TYPE is missing: it states the prices of spot capacity and on demand")
	}
	catalogue, err := cost.OpenCatalogue(o.PriceDirs()...)
	if err != nil {
		return nil, err
	}
	machine, err := catalogue.Lookup(instance)
	if err != nil {
		return nil, fmt.Errorf("--instance: %w", err)
	}
	if !(machine.Spot > 0 && machine.OnDemand > 0) {
		return nil, fmt.Errorf("--instance %s: the catalogue lacks one of its prices, on demand and of spot capacity", instance)
	}
	out := &capacity.Offers{OnDemand: capacity.Offer{Name: machine.Name(), Rates: machine.Rates()}}
	machine.UseSpot = true
	zone := capacity.Offer{Name: machine.Name(), Rates: machine.Rates()}
	if text == "auto" {
		out.Zones = []capacity.Offer{zone}
	}
	for i, t := range traces {
		zone.Name, zone.Trace = t.Name, paths[i]
		zone.Rates.Source = t.Name + ": " + machine.Rates().Source // zones differ in the record
		out.Zones = append(out.Zones, zone)
	}
	return out, nil
}

// spotNotice returns the metadata service that announces the end of this machine; empty for none. By default it is that
// of the cloud of an instance CLOUD:TYPE:spot.
func spotNotice(v *cli.Values, engine, instance string) (string, error) {
	text := v.Text("engine.spot_notice")
	switch {
	case text == "off":
		return "", nil
	case text == "auto":
		parts := strings.Split(instance, ":")
		if _, err := resources.ParseMetadata(parts[0]); err != nil || len(parts) != 3 || engine != "" {
			return "", nil
		}
		return parts[0], nil
	case engine != "":
		return "", fmt.Errorf("%s %s: jobs run on other machines with --engine %s", v.Source("engine.spot_notice"), text, engine)
	}
	if _, err := resources.ParseMetadata(text); err != nil {
		return "", fmt.Errorf("%s: %w; off asks none", v.Source("engine.spot_notice"), err)
	}
	return text, nil
}

// targets returns the targets of messages.
func targets(v *cli.Values, errs *[]error) []notify.Target {
	var out []notify.Target
	list := v.Lines("monitor.notify")
	if len(list) == 0 && strings.HasPrefix(v.Source("monitor.notify"), "--") {
		list = []string{""} // pflag drops a single empty value
	}
	for _, text := range list {
		t, err := notify.Parse(text)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %w", v.Source("monitor.notify"), err))
			continue
		}
		out = append(out, t)
	}
	return out
}

// knobs returns the user's templates by knob name; nil if none are given.
func knobs(v *cli.Values) (map[string]string, error) {
	var errs []error
	var out map[string]string
	given := v.Table("engine.knobs")
	for _, n := range slices.Sorted(maps.Keys(given)) {
		name, template, err := inspect.ParseKnob(n + "=" + given[n])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.Source("engine.knobs"), err))
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = template
	}
	return out, errors.Join(errs...)
}
