package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/logs"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/predict"
	"trainopt/resources"
)

// subject is the job to predict and the measurements available for it.
type subject struct {
	question *predict.Question
	entries  []history.Entry
	usesGPU  *bool // nil: unknown
	own      bool  // derived from a run of this machine, so that the job runs on CPUs of its architecture
}

// describe adds the description of the job by --like or --script to the question.
func (e *env) describe(c *common, f *predictFlags, v *values, s *subject) error {
	q := s.question
	switch {
	case f.like != "":
		if err := e.likeness(c, f.like, v, s); err != nil {
			return err
		}
	case f.script != "":
		if err := e.inspected(f.script, s); err != nil {
			return err
		}
	case q.Job.Model == "" && !(q.Job.Params > 0):
		return errors.New("predict what? give --like RUN|LOG, --script SCRIPT, or --model NAME with --params and --epochs")
	}
	predict.Fill(&q.Job, q.Job)
	if v.text("resource.gpus") != "" {
		gpus := q.GPUs.Max > 0
		s.usesGPU = &gpus
	}
	if f.gpu != "" {
		if s.usesGPU != nil && !*s.usesGPU && q.GPUs.Max == 0 && v.text("resource.gpus") != "" {
			return errors.New("--gpus 0 and --gpu exclude each other")
		}
		gpus := true
		s.usesGPU = &gpus
	}
	if s.usesGPU != nil && !*s.usesGPU {
		q.CPUOnly, q.GPUs = true, resources.Range{}
	}
	return nil
}

// likeness copies the job, the batch size and the work of a run or a log.
func (e *env) likeness(c *common, ref string, v *values, s *subject) error {
	log, run, err := e.logOrRun(c, ref)
	if err != nil {
		return fmt.Errorf("--like: %w", err)
	}
	var like history.Entry
	if log != "" {
		like, err = s.likeLog(ref, log, logs.Options{Aliases: v.table("monitor.columns")})
	} else {
		like, err = s.likeRun(ref, run)
	}
	if err != nil {
		return err
	}
	s.take(like)
	for _, x := range s.entries {
		if x.ID == like.ID || x.Parent == like.ID {
			s.question.Same = append(s.question.Same, x.ID)
		}
	}
	return nil
}

// likeLog reads a log, adds its entries to the measurements and returns its first training.
func (s *subject) likeLog(ref, path string, o logs.Options) (like history.Entry, err error) {
	log, err := logs.Read(path, o)
	if err != nil {
		return like, fmt.Errorf("--like: %w", err)
	}
	if len(log.Entries) == 0 {
		return like, fmt.Errorf("--like: read training log %s: no training in it: %s", ref, strings.Join(append(log.Notes, log.FirstBad...), "; "))
	}
	s.question.Notes = append(s.question.Notes, log.Notes...)
	trainings := 0
	for _, x := range log.Entries {
		if x.Parent == "" {
			trainings++
		}
		if !slices.ContainsFunc(s.entries, func(y history.Entry) bool { return y.ID == x.ID }) {
			s.entries = append(s.entries, x)
		}
	}
	if trainings > 1 {
		s.question.Notes = append(s.question.Notes, fmt.Sprintf("%s holds %d trainings: the first is taken", filepath.Base(ref), trainings))
	}
	s.question.Subject = "a job like " + filepath.Base(ref)
	return log.Entries[0], nil
}

// likeRun returns the entry of a finished run.
func (s *subject) likeRun(ref, dir string) (like history.Entry, err error) {
	id := filepath.Base(dir)
	rec, err := journal.ReadRecord(dir)
	at := slices.IndexFunc(s.entries, func(x history.Entry) bool { return x.ID == id })
	switch {
	case at < 0 && err != nil:
		return like, fmt.Errorf("--like %s: run %s is not in the runs database: %w", ref, id, err)
	case at < 0 && (rec.State == journal.Planned || rec.State == journal.Running):
		return like, fmt.Errorf("--like %s: run %s is not over (it is %s): wait for its end, or name its training log", ref, id, rec.State)
	case at < 0:
		return like, fmt.Errorf("--like %s: run %s is not in the runs database of this state directory", ref, id)
	}
	if err == nil && s.question.Resumable == nil {
		s.question.Resumable = rec.Script.Resumable
	}
	s.question.Subject = "a job like run " + id
	return s.entries[at], nil
}

// take copies the values that the flags leave open from an earlier run. The epochs are those of the whole training, as
// far as known.
func (s *subject) take(like history.Entry) {
	q := s.question
	s.own = like.Kind == history.Run
	if like.Unit == "epoch" && (like.State == "done" || !(like.Job.Epochs > 0)) {
		like.Job.Epochs = like.Units // the completed epochs, whatever was requested
	}
	predict.Fill(&q.Job, like.Job)
	if !(q.Batch > 0) {
		q.Batch = like.Observed.Batch
	}
	if s.usesGPU == nil && like.Observed.GPUs >= 0 {
		gpus := like.Observed.GPUs > 0
		s.usesGPU = &gpus
	}
}

// inspected copies the values found in a script and in the latest run of the same script.
func (e *env) inspected(script string, s *subject) error {
	ins, err := inspect.Inspect(inDir(e.dir, script))
	if err != nil {
		return fmt.Errorf("--script: %w", err)
	}
	q := s.question
	q.Subject = filepath.Base(script)
	q.Job.Script, q.Job.ScriptSHA256 = script, ins.SHA256
	for _, x := range s.entries { // newest first
		if x.Kind == history.Run && x.Job.ScriptSHA256 == ins.SHA256 {
			s.take(x)
			break
		}
	}
	found := history.NewEntry(history.Run, "").Job
	found.Framework, found.Family, found.Dataset = ins.Framework.Value, ins.Model.Value, ins.Dataset.Value
	if q.Job.Model != "" {
		found.Family = "" // an explicit name takes precedence
	}
	if n, err := strconv.ParseFloat(ins.Epochs.Value, 64); err == nil && n > 0 {
		found.Epochs = n
	}
	predict.Fill(&q.Job, found)
	if n, err := strconv.ParseFloat(ins.BatchSize.Value, 64); err == nil && n > 0 && !(q.Batch > 0) {
		q.Batch = n
	}
	if gpu := ins.GPU.Value == "yes"; s.usesGPU == nil && ins.GPU.Value != "" {
		s.usesGPU = &gpu
	}
	if ins.GPU.Value == "yes" && ins.MultiGPU.Value == "" && (ins.Framework.Value == "pytorch" || ins.Framework.Value == "huggingface") {
		q.OneGPU = true
		q.Notes = append(q.Notes, "nothing in the script spreads work over several GPUs: one is weighed")
	}
	if resumable := ins.Resumable.Value == "yes"; q.Resumable == nil && ins.Resumable.Value != "" {
		q.Resumable = &resumable
	}
	return nil
}

// machines returns the candidate machines: this machine, the named ones, or the offers of the catalogue.
func (e *env) machines(c *common, f *predictFlags, v *values, s *subject) ([]predict.Machine, error) {
	named := v.text("cost.instance")
	if f.here {
		if named != "" || len(f.clouds) > 0 || f.spot {
			return nil, errors.New("--here excludes --instance, --cloud and --spot: this machine is not one of a cloud")
		}
		return e.thisMachine(v, s)
	}
	for _, key := range []string{"cost.rates", "cost.gpu_hour", "cost.cpu_hour", "cost.gb_hour"} {
		if strings.HasPrefix(v.src[key], "--") {
			return nil, fmt.Errorf("%s says what this machine costs: add --here, or import the price of a machine with `optimize prices import`", v.src[key])
		}
	}
	catalogue, err := cost.OpenCatalogue(c.absoluteState(e))
	if err != nil {
		return nil, err
	}
	if named != "" {
		if len(f.clouds) > 0 {
			return nil, errors.New("--instance and --cloud exclude each other: both say where the job may run")
		}
		return namedMachines(catalogue, named, f.gpu, s)
	}
	filter := cost.Filter{Clouds: f.clouds, GPU: f.gpu}
	if s.question.CPUOnly {
		filter.GPU = "none"
		s.needArch()
	} else {
		filter.MinGPUs = 1
	}
	var out []predict.Machine
	for _, o := range catalogue.Select(filter) {
		out = append(out, predict.Machine{Offer: o})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no offer of the price catalogue is%s%s: `optimize prices list` shows them", words(" of ", strings.Join(f.clouds, ", ")), words(" with GPU ", f.gpu))
	}
	return out, nil
}

// arch returns the CPU architecture that the job is assumed to need: that of this machine if it ran here, otherwise the
// most common one.
func (s *subject) arch() string {
	if s.own {
		return runtime.GOARCH
	}
	return "amd64"
}

// needArch restricts a job without GPUs to CPUs of its architecture.
func (s *subject) needArch() {
	s.question.Arch = s.arch()
	if s.own {
		return
	}
	s.question.Notes = append(s.question.Notes, "on which CPUs the job runs is not known: machines with amd64 (x86) CPUs are weighed; others with --instance")
}

func words(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// namedMachines looks up the machines of --instance. Either all or none of them may be spot offers, since a question is
// about one market.
func namedMachines(catalogue *cost.Catalogue, names, gpu string, s *subject) ([]predict.Machine, error) {
	if gpu != "" {
		return nil, errors.New("--instance and --gpu exclude each other: a machine has its own GPUs")
	}
	var out []predict.Machine
	spot := 0
	for _, name := range strings.Split(names, ",") {
		o, err := catalogue.Lookup(strings.TrimSpace(name))
		if err != nil {
			return nil, fmt.Errorf("--instance: %w", err)
		}
		if o.UseSpot {
			spot++
			o.UseSpot = false
		}
		out = append(out, predict.Machine{Offer: o, Divide: true})
		if s.usesGPU == nil {
			s.question.CPUOnly = o.GPUs == 0
		}
		if s.question.CPUOnly && o.Arch() != s.arch() {
			s.question.Notes = append(s.question.Notes, fmt.Sprintf("%s has %s CPUs: that the job runs on them is assumed", o.Name(), o.Arch()))
		}
	}
	switch spot {
	case 0:
	case len(out):
		s.question.Market = predict.Spot
	default:
		return nil, fmt.Errorf("--instance %s: spot for some and not for others; ask twice, or for all", names)
	}
	return out, nil
}

// thisMachine returns this machine as an offer, at the given rates or at the default rates for its kind.
func (e *env) thisMachine(v *values, s *subject) ([]predict.Machine, error) {
	ctx, cancel := context.WithTimeout(cmdContext(), 30*time.Second)
	defer cancel()
	host, err := resources.Discover(ctx, resources.Roots{})
	if err != nil {
		return nil, fmt.Errorf("--here: %w", err)
	}
	o := cost.Offer{Type: "this machine", GPUs: len(host.GPUs), CPUs: max(1, int(host.CPUs)), Memory: host.Memory}
	for _, g := range host.GPUs {
		o.GPU, o.GPUMemory = cost.GPUModel(g.Name), g.Memory
	}
	base := func() cost.Rates { return cost.Default(o.GPU) }
	rates, err := e.pricesFor(v, base)
	if err != nil {
		return nil, err
	}
	if rates == nil {
		r := base()
		rates = &r
	}
	s.question.Notes = append(s.question.Notes, fmt.Sprintf("prices of this machine: %s%s", rates.Source, words(", dated ", rates.Dated)))
	if rates.Assumed != "" {
		s.question.Notes = append(s.question.Notes, rates.Assumed)
	}
	if s.usesGPU == nil {
		s.question.CPUOnly = o.GPUs == 0
	}
	return []predict.Machine{{Offer: o, Rates: rates, Divide: true}}, nil
}
