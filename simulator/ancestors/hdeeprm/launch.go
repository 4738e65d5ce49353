package hdeeprm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/batsim"
	"trainopt/simulator/workload/swf"
)

// The files that a launch leaves in its folder, and takes up again. HDeepRM has two of them as pickles of Python.
const (
	PlatformFile = "platform.xml"
	WorkloadFile = "workload.json"
	LimitsFile   = "job_limits.json"
)

// LaunchOptions say how an experiment is made ready.
type LaunchOptions struct {
	// Compat converts the trace as HDeepRM does, mistakes included.
	Compat bool
	// Custom is a workload of Batsim in which every job does what it asks for (hdeeprm-launch -cw), instead of the one in the options.
	Custom string
	// Folder is where a workload is looked for that an earlier launch left, and where platform, workload and limits are written.
	// The workload is taken when the platform beside it is the one of the options; else, or with Custom, it is made anew. "" keeps
	// no files.
	Folder string
	// Library has the types of the platform; nil is platform.BuiltinLibrary.
	Library *platform.Library
}

// Experiment is what options ask for, ready to be simulated.
type Experiment struct {
	Options  *Options
	Tree     *platform.Tree
	Workload *batsim.Workload
	Jobs     []queue.Job
	Profile  func(*queue.Job) string // names of profiles, for batsim.WriteJobs
	Limits   Limits
	Dropped  map[string]int // jobs that are not simulated, by why
	Warnings []string       // those of the options and of making ready
}

// Prepare reads platform and workload, and converts a trace. A platform or types that are missing, a trace without jobs and a
// workload that is none are errors. Nothing is simulated.
//
//	e, err := options.Prepare(hdeeprm.LaunchOptions{})
//	environment, err := hdeeprm.NewEnvironment(e.Tree, e.Jobs, e.Limits, options.Settings(false))
func (o *Options) Prepare(l LaunchOptions) (*Experiment, error) {
	e := &Experiment{Options: o, Dropped: map[string]int{}, Warnings: slices.Clone(o.Warnings)}
	tree, warning, err := o.ReadPlatform(l.Library)
	if warning != "" {
		e.warn("%s", warning)
	}
	e.Tree = tree
	if err != nil {
		return nil, err
	}
	if n := o.Resources; n != 0 && n != e.Tree.Cores {
		e.warn("nb_resources is %d, the platform has %d cores: the platform counts", n, e.Tree.Cores)
	}
	var xml bytes.Buffer
	if err := e.Tree.WriteXML(&xml); err != nil {
		return nil, err
	}
	if err := e.workload(l, xml.Bytes()); err != nil {
		return nil, err
	}
	c, err := e.Workload.Convert(batsim.ConvertOptions{Reference: e.Tree.Reference})
	if err != nil {
		return nil, err
	}
	for reason, n := range c.Dropped {
		e.Dropped[reason] += n
	}
	for _, reason := range slices.Sorted(maps.Keys(c.Adjusted)) {
		e.warn("%d jobs changed: %s", c.Adjusted[reason], reason)
	}
	if len(c.Jobs) == 0 {
		return nil, fmt.Errorf("launch: %w of the workload", swf.ErrNoJobs)
	}
	e.Jobs, e.Profile, e.Limits = c.Jobs, c.Profile, LimitsOf(c.Jobs)
	if l.Folder == "" {
		return e, nil
	}
	return e, e.keep(l.Folder, xml.Bytes())
}

func (e *Experiment) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

// ReadPlatform reads the platform that the options name. Where its file is not there, the example of that name is taken, and the
// warning says so; else it is "". A nil library is the built-in one.
func (o *Options) ReadPlatform(library *platform.Library) (tree *platform.Tree, warning string, err error) {
	if library == nil {
		library = platform.BuiltinLibrary()
	}
	if o.Platform == "" {
		return nil, "", errors.New("the options name no platform (platform_file_path)")
	}
	tree, err = library.ReadTree(o.Platform)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, "", fmt.Errorf("%w: the file is empty or cut off", err)
	}
	name := strings.TrimSuffix(filepath.Base(o.Platform), filepath.Ext(o.Platform))
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(platform.Examples(), name) {
		tree, err = platform.Example(name)
		return tree, fmt.Sprintf("there is no %s: the example %s is taken, which is part of this program", o.Platform, name), err
	}
	return tree, "", err
}

// workload finds the workload: a custom one, one that an earlier launch left, or that of the options.
func (e *Experiment) workload(l LaunchOptions, xml []byte) (err error) {
	if l.Custom != "" {
		if e.Workload, err = batsim.Load(l.Custom); err != nil {
			return err
		}
		return Customize(e.Workload, e.Tree.Reference)
	}
	if l.Folder != "" {
		left := filepath.Join(l.Folder, WorkloadFile)
		_, err := os.Stat(left)
		same, readErr := regular.ReadFile(filepath.Join(l.Folder, PlatformFile), regular.Data)
		switch {
		case err == nil && readErr == nil && bytes.Equal(same, xml):
			e.warn("the workload is %s, which an earlier launch left", left)
			e.Workload, err = batsim.Load(left)
			return err
		case err == nil:
			e.warn("%s is made anew: it was left for another platform", left)
		}
	}
	if e.Options.Workload == "" {
		return errors.New("launch: the options name no workload (workload_file_path), and no custom one is given")
	}
	return e.trace(l.Compat)
}

// trace reads the workload of the options: JSON of Batsim as it is, else a trace that is converted.
func (e *Experiment) trace(compat bool) (err error) {
	o := e.Options
	if name := strings.TrimSuffix(o.Workload, ".gz"); strings.EqualFold(filepath.Ext(name), ".json") {
		e.Workload, err = batsim.Load(o.Workload)
		return err
	}
	f, err := regular.Open(o.Workload, regular.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read trace: %w; an empty workload_file_path draws jobs", err)
	}
	if err != nil {
		return fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	r, err := swf.NewReader(bufio.NewReader(f))
	if err != nil {
		return fmt.Errorf("read trace %s: %w", o.Workload, err)
	}
	resources := o.Resources
	if resources == 0 {
		resources = e.Tree.Cores
	}
	c, err := Convert(r, ConvertOptions{Seed: uint32(o.Seed), Jobs: o.Jobs, Resources: resources, Reference: e.Tree.Reference, Compat: compat})
	if err != nil {
		return fmt.Errorf("trace %s: %w", o.Workload, err)
	}
	if o.Jobs > len(c.Jobs) {
		e.warn("nb_jobs is %d, the trace has %d", o.Jobs, len(c.Jobs))
	}
	if c.Damage != nil {
		e.warn("the trace is damaged, first in %v", c.Damage)
	}
	e.Workload, e.Dropped = c.Workload, c.Dropped
	return nil
}

// keep writes the files of a launch.
func (e *Experiment) keep(dir string, xml []byte) error {
	var workload bytes.Buffer
	if err := e.Workload.Write(&workload, 3); err != nil {
		return err
	}
	limits, err := json.Marshal(map[string]float64{"max_time": e.Limits.Time, "max_core": e.Limits.Cores, "max_mem": e.Limits.Memory,
		"max_mem_bw": e.Limits.Bandwidth})
	if err != nil {
		return fmt.Errorf("write limits of jobs: %w", err)
	}
	for _, f := range []struct { // the platform last: it vouches for the workload
		name string
		data []byte
	}{{WorkloadFile, workload.Bytes()}, {LimitsFile, append(limits, '\n')}, {PlatformFile, xml}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	return nil
}
