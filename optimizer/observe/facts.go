package observe

import (
	"cmp"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// Facts contains the reports of the job's processes so far. The zero value is that of a job without reports.
type Facts struct {
	// Framework is the framework that runs the training ("torch" or "keras loop" for a loop in the script), empty before a training
	// begins.
	Framework string
	// Unit is the unit of Step: "step" (of the optimizer), "round", "call" or "timestep".
	Unit string
	// PID is the training process, rank 0 of a distributed training; Training is the number of its current training,
	// from 1.
	PID, Training int
	// Finished is true if the current training has ended, Ended if its process has.
	Finished, Ended bool
	// WorldSize is the number of ranks, 1 for an undistributed training.
	WorldSize int
	// Step is the last reported step; Samples, SamplesPerStep and EpochSamples count over all ranks. NaN if unknown.
	Step, Samples, SamplesPerStep, EpochSamples float64
	// Threads is the size of the numeric thread pool of a rank, Workers the number of its data-loader workers; -1 if
	// unknown.
	Threads, Workers int
	// Stream reports that the loader is over an iterable dataset, whose workers have to divide the data.
	Stream bool
	// StepTime is the median of the recent steps; 0 if unknown.
	StepTime time.Duration
	// Closing is the expected time for the framework's work after the last epoch, such as a final evaluation. 0 if
	// unknown.
	Closing time.Duration
	// DataWait, Optimizer and Saving are shares of the time between steps, 0 to 1; NaN if unknown.
	DataWait, Optimizer, Saving float64
	// Stepping is the time between steps so far, Waiting the part of it spent waiting for data.
	Stepping, Waiting time.Duration
	// GradientBytes are the bytes of gradients of one step in a rank; 0 if unknown, as those of sharded parameters.
	GradientBytes float64
	// CanSave, CanStop, CanSetThreads and CanSetWorkers report which requests the training supports.
	CanSave, CanStop, CanSetThreads, CanSetWorkers bool
	// Checkpoints are the written checkpoints in order of time; the oldest are dropped beyond 1000. Saves is the number of all.
	Checkpoints []Checkpoint
	Saves       int
	// Failures are the hooks that have failed and are off.
	Failures []failure
	// Processes are the training processes, by process id.
	Processes []Process
	// Concurrent is the number of processes that train at present without being ranks of one training; the counts above
	// are those of one of them.
	Concurrent int
}

// Checkpoint is a file or directory to which the training wrote its state. The training may have replaced or removed
// it since.
type Checkpoint struct {
	Path string
	// Step and Epoch are the progress of the training at the write, NaN if unknown.
	Step, Epoch float64
	// At is the end of the write on CLOCK_MONOTONIC, Wall the same on the wall clock, Took its duration.
	At   time.Duration
	Wall time.Time
	Took time.Duration
	// Kind is the framework that saved it; "torch.save" for a save by the script.
	Kind string
	// Weights reports that it contains weights alone, without progress or optimizer.
	Weights bool
}

// failure is a hook that has failed and is off.
type failure struct {
	Hook, Reason string
}

// Process is one training process.
type Process struct {
	PID, Rank int
	Step      float64
	Ended     bool
}

// process is the state of one process, derived from its lines.
type process struct {
	Process
	foreign  bool // of another boot: its times are not comparable
	lastAt   float64
	training *line // the line that began the current training
	first    *line // first and last progress of the current training
	last     *line
	finished bool
	follows  bool // a training that has finished
}

// bootID identifies this boot of the machine, empty if unknown.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// take processes a line, and reports whether it is progress of the job.
func (r *Reader) take(l *line) bool {
	p := r.processes[l.PID]
	if p == nil || l.Event == "start" {
		p = &process{Process: Process{PID: l.PID}}
		p.foreign = l.Event == "start" && l.Boot != "" && r.boot != "" && l.Boot != r.boot
		if r.speaker != nil && r.speaker.PID == l.PID {
			r.speaker.Ended = true // replaced by exec, or its pid was reused
		}
		r.processes[l.PID] = p
	}
	defer func() { p.lastAt = l.Mono }()
	switch l.Event {
	case "training":
		p.follows = p.finished
		p.training, p.first, p.last, p.finished, p.Rank = l, nil, nil, false, l.Rank
		r.claimTraining(p, l)
	case "progress":
		return r.progress(p, l)
	case "finished":
		p.finished = true
	case "end":
		p.Ended = true
	case "checkpoint":
		r.checkpoint(p, l)
	case "failure":
		f := failure{Hook: clip(l.Hook), Reason: clip(l.Reason)}
		if len(r.failures) < maxFailures && !slices.ContainsFunc(r.failures, func(o failure) bool { return o.Hook == f.Hook && o.Reason == f.Reason }) {
			r.failures = append(r.failures, f)
		}
	case "answer":
		r.answer(l)
	}
	return false
}

// claimTraining reports whether p is the training process; a process takes over from one that has ended or is silent.
func (r *Reader) claimTraining(p *process, l *line) bool {
	s := r.speaker
	if l.Rank == 0 && !p.foreign && (s == nil || s == p || s.Ended || s.foreign || l.Mono-s.lastAt > silence) {
		r.speaker = p
	}
	return r.speaker == p
}

// progress stores a line of progress, and reports whether it is of the training process.
func (r *Reader) progress(p *process, l *line) bool {
	if p.training == nil {
		p.training = l
	}
	if p.first == nil {
		p.first = l
	}
	p.last, p.Rank = l, l.Rank
	p.Step = value(l.Step)
	return r.claimTraining(p, l)
}

// checkpoint stores a checkpoint of rank 0. A torch.save counts in a training loop of the script and, because frameworks
// also use it for other files, before a training only if it replaces a known checkpoint.
func (r *Reader) checkpoint(p *process, l *line) {
	own := l.Training > 0 && p.training != nil && (p.training.Framework == "torch" || p.training.Framework == "keras loop")
	again := l.Kind == "torch.save" && p.training == nil && slices.Contains(r.known, l.Path)
	if l.Path == "" || l.Rank != 0 || l.Kind == "torch.save" && !own && !again {
		return // not a checkpoint of the training framework, for instance its arguments
	}
	if len(r.saved) >= maxCheckpoints {
		r.saved = slices.Delete(r.saved, 0, len(r.saved)-maxCheckpoints+1)
	}
	c := Checkpoint{Path: l.Path, Step: value(l.Step), Epoch: value(l.Epoch), Wall: time.Unix(0, int64(l.Time*1e9)), Took: duration(l.Seconds), Kind: clip(l.Kind), Weights: l.Weights}
	if again { // it contains what it was loaded from
		c.Step, c.Epoch = 0, 0
	}
	if !p.foreign {
		c.At = duration(l.Mono)
	}
	r.saved = append(r.saved, c)
	r.saves++
}

// Facts returns the reports up to the last Poll.
func (r *Reader) Facts() Facts {
	f := Facts{Step: math.NaN(), Samples: math.NaN(), SamplesPerStep: math.NaN(), EpochSamples: math.NaN(), DataWait: math.NaN(), Optimizer: math.NaN(), Saving: math.NaN(),
		Threads: -1, Workers: -1, Checkpoints: slices.Clone(r.saved), Saves: r.saves, Failures: slices.Clone(r.failures)}
	latest := 0.0
	for _, p := range r.processes {
		latest = max(latest, p.lastAt)
	}
	for _, p := range r.processes {
		if p.training == nil {
			continue
		}
		f.Processes = append(f.Processes, p.Process)
		if p.first != p.last && p.last.World <= 1 && !p.foreign && !p.Ended && !p.finished && latest-p.lastAt < silence {
			f.Concurrent += 1 + p.last.Beside
		}
	}
	sort.Slice(f.Processes, func(i, j int) bool { return f.Processes[i].PID < f.Processes[j].PID })
	p := r.speaker
	if p == nil {
		return f
	}
	t := p.training
	f.Framework, f.Unit, f.PID, f.Training = clip(t.Framework), clip(t.Unit), p.PID, t.Training
	f.WorldSize, f.Finished, f.Ended = max(1, t.World), p.finished, p.Ended
	running := !p.finished && !p.Ended
	f.CanSave, f.CanStop, f.CanSetThreads = t.CanSave && running, t.CanStop && running, t.CanSetThreads && running
	f.SamplesPerStep, f.EpochSamples = value(t.BatchSize), value(t.DataCount)
	if p.last != nil {
		f.measured(p.last, t)
		f.CanSetWorkers = running && f.Workers >= 0
	}
	return f
}

// measured sets the fields that follow from the start and the last progress of a training.
func (f *Facts) measured(last, start *line) {
	f.Step, f.Samples, f.WorldSize = value(last.Step), value(last.Samples), max(1, last.World)
	f.StepTime, f.Closing = duration(value(last.StepSeconds)), duration(last.Closing)
	f.SamplesPerStep, f.EpochSamples = value(cmp.Or(last.BatchSize, start.BatchSize)), value(cmp.Or(last.DataCount, start.DataCount))
	f.Stepping, f.Waiting = duration(last.Stepping), duration(last.Waiting)
	if last.Stepping > 0 {
		share := func(seconds float64) float64 { return min(1, max(0, seconds/last.Stepping)) }
		f.DataWait, f.Optimizer, f.Saving = share(last.Waiting), share(value(last.Optimizing)), share(last.Saving)
	}
	f.GradientBytes = max(0, last.GradientBytes)
	if last.Threads != nil {
		f.Threads = int(*last.Threads)
	}
	if last.Workers != nil {
		f.Workers, f.Stream = int(*last.Workers), last.Stream
	}
}

// clip limits the length of a text in a report.
func clip(s string) string {
	const most = 500
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "")
	}
	return s
}
