package predict

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/resources"
)

// Subject is a job being described by an earlier run, a log or a script, and by the machines on which it may run. Values
// that the Question already contains take precedence.
type Subject struct {
	*Question
	Entries []history.Entry // measurements, newest first

	usesGPU *bool // nil: unknown
	own     bool  // derived from a run of this machine, so that the job runs on CPUs of its architecture
}

// LikeLog describes the job by the first training of a log with the given display name. The entries of the log are added
// to the measurements.
func (s *Subject) LikeLog(name, path string, o history.LogOptions) error {
	log, err := history.ReadLog(path, o)
	if err != nil {
		return err
	}
	if len(log.Entries) == 0 {
		return fmt.Errorf("read training log %s: it contains no training: %s", name, strings.Join(append(log.Notes, log.FirstBad...), "; "))
	}
	s.Notes = append(s.Notes, log.Notes...)
	trainings := 0
	for _, x := range log.Entries {
		if x.Parent == "" {
			trainings++
		}
		if !slices.ContainsFunc(s.Entries, func(y history.Entry) bool { return y.ID == x.ID }) {
			s.Entries = append(s.Entries, x)
		}
	}
	if trainings > 1 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s contains %d trainings: the first is used", filepath.Base(name), trainings))
	}
	s.Subject = "a job like " + filepath.Base(name)
	s.like(log.Entries[0])
	return nil
}

// LikeRun describes the job by a finished run.
func (s *Subject) LikeRun(dir string) error {
	id := filepath.Base(dir)
	rec, err := journal.ReadVerified(dir)
	at := slices.IndexFunc(s.Entries, func(x history.Entry) bool { return x.ID == id })
	switch {
	case at < 0 && err != nil:
		return fmt.Errorf("run %s is not in the runs database: %w", id, err)
	case at < 0 && (rec.State == journal.Planned || rec.State == journal.Running):
		return fmt.Errorf("run %s is %s, not finished: wait for its end, or name its training log", id, rec.State)
	case at < 0:
		return fmt.Errorf("run %s is not in the runs database of this state directory", id)
	}
	if err == nil && s.Resumable == nil {
		s.Resumable = rec.Script.Resumable
	}
	s.Subject = "a job like run " + id
	s.like(s.Entries[at])
	return nil
}

// like copies the job, the batch size and the work of an entry.
func (s *Subject) like(entry history.Entry) {
	s.take(entry)
	for _, x := range s.Entries {
		if x.ID == entry.ID || x.Parent == entry.ID {
			s.Same = append(s.Same, x.ID)
		}
	}
}

// take copies unknown values from an earlier run. The epochs are those of the whole training, as far as known.
func (s *Subject) take(like history.Entry) {
	s.own = like.Kind == history.Run
	if like.Unit == "epoch" && (like.State == "done" || !(like.Job.Epochs > 0)) {
		like.Job.Epochs = like.Units // the completed epochs, whatever was requested
	}
	fill(&s.Job, like.Job)
	if !(s.Batch > 0) {
		s.Batch = like.Observed.Batch
	}
	if s.usesGPU == nil && like.Observed.GPUs >= 0 {
		gpus := like.Observed.GPUs > 0
		s.usesGPU = &gpus
	}
}

// Inspect describes the job by a script with the given display name and by the latest run of the same script.
func (s *Subject) Inspect(name, path string) error {
	ins, err := inspect.Inspect(path)
	if err != nil {
		return err
	}
	s.Subject = filepath.Base(name)
	s.Job.Script, s.Job.ScriptSHA256 = name, ins.SHA256
	for _, x := range s.Entries { // newest first
		if x.Kind == history.Run && x.Job.ScriptSHA256 == ins.SHA256 {
			s.take(x)
			break
		}
	}
	found := history.NewEntry(history.Run, "").Job
	found.Framework, found.Family, found.Dataset = ins.Framework.Value, ins.Model.Value, ins.Dataset.Value
	if s.Job.Model != "" {
		found.Family = "" // an explicit name takes precedence
	}
	if lengths := inspect.ReadCommand(ScriptCommand(path), "").Lengths(); len(lengths) > 0 && lengths[0].Unit == "epoch" {
		found.Epochs = lengths[0].Units
	}
	fill(&s.Job, found)
	if n, err := strconv.ParseFloat(ins.BatchSize.Value, 64); err == nil && n > 0 && !(s.Batch > 0) {
		s.Batch = n
	}
	if gpu := ins.GPU.Value == "yes"; s.usesGPU == nil && ins.GPU.Value != "" {
		s.usesGPU = &gpu
	}
	if ins.GPU.Value == "yes" && ins.MultiGPU.Value == "" && (ins.Framework.Value == "pytorch" || ins.Framework.Value == "huggingface") {
		s.OneGPU = true
		s.Notes = append(s.Notes, "the script does not distribute work over several GPUs: only one GPU is considered")
	}
	if resumable := ins.Resumable.Value == "yes"; s.Resumable == nil && ins.Resumable.Value != "" {
		s.Resumable = &resumable
	}
	s.StopSignal = ins.StopSignal.Value
	return nil
}

// UseGPU states whether the job uses GPUs; it takes precedence over descriptions that follow.
func (s *Subject) UseGPU(uses bool) { s.usesGPU = &uses }

// settle completes the description of the job after its sources.
func (s *Subject) settle() {
	fill(&s.Job, s.Job)
	if s.usesGPU != nil && !*s.usesGPU {
		s.CPUOnly, s.GPUs = true, resources.Range{}
	}
}

// arch returns the CPU architecture that the job is assumed to need: that of this machine if it ran here, otherwise the
// most common one.
func (s *Subject) arch() string {
	if s.own {
		return runtime.GOARCH
	}
	return "amd64"
}

// NamedMachines sets the machines to offers of the catalogue. Either all or none of them may be spot offers, since a
// question is about one market.
func (s *Subject) NamedMachines(catalogue *cost.Catalogue, names []string) error {
	s.settle()
	spot, gpus := 0, false
	for _, name := range names {
		o, err := catalogue.Lookup(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		if o.UseSpot {
			spot++
			o.UseSpot = false
		}
		gpus = gpus || o.GPUs > 0
		s.Machines = append(s.Machines, machine{Offer: o, Divide: true})
	}
	if s.usesGPU == nil {
		s.CPUOnly = !gpus
	}
	for _, m := range s.Machines {
		if o := m.Offer; s.CPUOnly && o.Arch() != s.arch() {
			s.Notes = append(s.Notes, fmt.Sprintf("%s has %s CPUs: the job is assumed to run on them", o.Name(), o.Arch()))
		}
	}
	if spot > 0 && spot < len(names) {
		return errors.New("spot for some machines and not for others: predict them separately, or all in the same market")
	}
	if spot > 0 {
		s.Market = Spot
	}
	return nil
}

// SelectMachines sets the machines to the offers of the catalogue that are of one of the clouds and have the GPU model.
// Empty filters match every offer; a job without GPUs runs on machines without GPUs.
func (s *Subject) SelectMachines(catalogue *cost.Catalogue, clouds []string, gpu string) error {
	s.settle()
	filter := cost.Filter{Clouds: clouds, GPU: gpu, MinGPUs: 1}
	if s.CPUOnly {
		filter.GPU, filter.MinGPUs = "none", 0
		s.Arch = s.arch()
		if !s.own {
			s.Notes = append(s.Notes, "the CPU architecture of the job is unknown: machines with amd64 (x86) CPUs are considered; select others with --instance")
		}
	}
	for _, o := range catalogue.Select(filter) {
		s.Machines = append(s.Machines, machine{Offer: o})
	}
	if len(s.Machines) == 0 {
		return errors.New("no offer of the price catalogue matches")
	}
	return nil
}

// OwnMachine sets the machine to a host at the given rates, which depend on the name of its first GPU: "" without GPUs,
// "unknown" for one without a name.
func (s *Subject) OwnMachine(host resources.Host, rates func(gpu string) (*cost.Rates, error)) error {
	s.settle()
	o := cost.Offer{Type: "this machine", GPUs: len(host.GPUs), CPUs: max(1, int(host.CPUs)), Memory: host.Memory}
	for _, g := range host.GPUs {
		o.GPU, o.GPUMemory = cost.GPUModel(g.Name), g.Memory
	}
	gpu := ""
	if len(host.GPUs) > 0 {
		gpu = cmp.Or(host.GPUs[0].Name, "unknown")
	}
	r, err := rates(gpu)
	if err != nil {
		return err
	}
	note := "prices of this machine: " + r.Source
	if r.Dated != "" {
		note += ", dated " + r.Dated
	}
	s.Notes = append(s.Notes, note)
	if r.Assumed != "" {
		s.Notes = append(s.Notes, r.Assumed)
	}
	if s.usesGPU == nil {
		s.CPUOnly = o.GPUs == 0
	}
	s.Machines = []machine{{Offer: o, Rates: r, Divide: true}}
	return nil
}
