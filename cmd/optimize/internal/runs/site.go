package runs

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch/remote"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// NodeArg is the hidden first argument with which the binary starts itself on a node of an engine.
const NodeArg = "__node"

// siteOf returns the function that connects an agent to the engine of a configuration.
func siteOf(e *cli.Env) func(context.Context, run.Config, bool) (run.Site, error) {
	return func(ctx context.Context, cfg run.Config, gpus bool) (run.Site, error) {
		eng, err := cli.OpenEngine(cfg.Engine)
		if err != nil {
			return run.Site{}, err
		}
		return siteOn(ctx, e, eng, cfg, gpus)
	}
}

// siteOn connects an agent to the nodes of an engine that a configuration selects.
func siteOn(ctx context.Context, e *cli.Env, eng engine.Engine, cfg run.Config, gpus bool) (run.Site, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	wish := remote.ReadWish(cfg.EngineArgs)
	wish.Nodes = cfg.Nodes
	allowed := wish
	cfg.EngineArgs = wish.Named(cfg.EngineArgs)
	if cfg.Place.Partition != "" {
		wish.Partition, wish.GPUType = cfg.Place.Partition, cfg.Place.GPUType
	}
	offers, err := eng.Offers(ctx)
	gpus = wish.AsksGPUs(offers, gpus)
	offer := engine.Offer{Partition: wish.Partition, GPUType: wish.GPUType, PerJob: wish.Nodes} // enough for jobs that exist already
	if err == nil {
		offer, err = wish.Choose(offers, gpus)
	}
	if c, ok := eng.(interface {
		CheckOptions(context.Context, []string) error
	}); ok && err == nil {
		err = c.CheckOptions(ctx, cfg.EngineArgs)
	}
	for i := range offers {
		offers[i].PerJob, offers[i].Whole = wish.Nodes, offers[i].Whole || wish.Whole
	}
	if err != nil {
		offers = nil
	}
	site, siteErr := siteAt(ctx, e, eng, offers, offer, cfg, gpus)
	site.Others = others(ctx, e, eng, offers, site.Place, allowed, cfg, gpus)
	return site, errors.Join(err, siteErr, allowed.CheckNumber(cfg.GPUs))
}

// others returns the sites of the other kinds of nodes that the user's options allow, the largest of each kind. A job without
// GPUs names no type, so that those of one partition are the same to it.
func others(ctx context.Context, e *cli.Env, eng engine.Engine, offers []engine.Offer, chosen engine.Kind, allowed remote.Wish, cfg run.Config, gpus bool) []run.Site {
	var list []run.Site
	for _, o := range offers {
		place := placeOf(o, gpus)
		if !allowed.Fits(o) || gpus != (o.GPUs > 0) && gpus || place == chosen || slices.ContainsFunc(list, func(s run.Site) bool { return s.Place == place }) {
			continue
		}
		if s, err := siteAt(ctx, e, eng, offers, o, cfg, gpus); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// placeOf returns the kind of the nodes of an offer, as a job can name it.
func placeOf(o engine.Offer, gpus bool) engine.Kind {
	if !gpus {
		o.GPUType = ""
	}
	return engine.Kind{Partition: o.Partition, GPUType: o.GPUType}
}

// siteAt connects an agent to the nodes of an offer.
func siteAt(ctx context.Context, e *cli.Env, eng engine.Engine, offers []engine.Offer, offer engine.Offer, cfg run.Config, gpus bool) (run.Site, error) {
	place := placeOf(offer, gpus)
	offer.Whole = offer.Whole || remote.ReadWish(cfg.EngineArgs).Whole
	if !gpus && !offer.Whole { // otherwise they are held, and paid
		offer.GPUs = 0
	}
	l := &remote.Launcher{Engine: eng, Self: []string{e.Self[0], NodeArg}, Inherited: e.Environ, Extra: cfg.EngineArgs,
		Place:  func(a resources.Allocation) engine.Place { return offer.Place(a) },
		Limits: func(p engine.Place) (longest, usual time.Duration) { return p.Limits(offers) }}
	if n, ok := eng.(interface {
		Notice(context.Context) time.Duration
	}); ok {
		l.Notice = n.Notice(ctx)
	}
	if n, ok := eng.(interface {
		Limit(options []string) time.Duration
	}); ok {
		l.Limit = n.Limit(cfg.EngineArgs)
	}
	site := run.Site{Launcher: l, Place: place, Idle: offer.Idle, Engine: eng, Host: offer.Host(), Whole: offer.Whole, Capacity: func(ctx context.Context, args []string) (bool, error) {
		offers, err := eng.Offers(ctx)
		wish := remote.ReadWish(args)
		wish.Nodes = cfg.Nodes
		return slices.ContainsFunc(offers, func(o engine.Offer) bool { return wish.Fits(o) && o.Idle >= max(1, cfg.Nodes) }), err
	}}
	if len(offers) == 0 {
		return site, nil
	}
	if queue, ok := eng.(remote.Observable); ok {
		site.Forecast = func(ctx context.Context, a resources.Allocation, runs time.Duration, others int) ([]engine.Forecast, error) {
			return remote.Forecasts(ctx, queue, offers, offer, a, userName(e), journal.ShortName(cfg.Name), runs, cfg.BillingHour, others)
		}
	}
	if cfg.BillingHour > 0 {
		rates, err := offer.Rates(cfg.BillingHour)
		if err != nil {
			return run.Site{}, err
		}
		site.Rates = rates
	}
	return site, nil
}

// userName returns the name of the user who submits jobs.
func userName(e *cli.Env) string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return e.Getenv("USER")
}

// CheckEngine tests an engine with the state directory of this process, for up to two minutes.
func CheckEngine(e *cli.Env, name string, args []string) ([]resources.Finding, error) {
	eng, err := cli.OpenEngine(name)
	if err != nil {
		return nil, fmt.Errorf("--engine %q: %w", name, err)
	}
	dir, err := filepath.Abs(e.State())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return remote.Check(ctx, eng, dir, remote.ReadWish(args), args), nil
}
