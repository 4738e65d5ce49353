package hdeeprm

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload/swf"
)

// LaunchOptions are the options of preparing an experiment.
type LaunchOptions struct {
	// Compat converts the trace with HDeepRM's errors; see ConvertOptions.
	Compat bool
	// Custom is a workload file of Batsim whose jobs execute their requested work (hdeeprm-launch -cw); it replaces
	// the workload of the options.
	Custom string
}

// experiment is the prepared experiment of an options file.
type experiment struct {
	Options  *Options
	Tree     *platform.Tree
	Workload *BatsimWorkload
	Jobs     []order.Job
	Profile  func(*order.Job) string // profile names, for hdeeprm.WriteJobs
	Limits   Limits
	Dropped  map[string]int // number of dropped jobs by reason
	Warnings []string       // warnings of the options and of the preparation
}

// Prepare reads the platform and the workload, and converts a trace. A missing platform or type, a trace without
// jobs, and an invalid workload are errors. It runs no simulation.
//
//	e, err := options.Prepare(hdeeprm.LaunchOptions{})
//	environment, err := hdeeprm.NewEnvironment(e.Tree, e.Jobs, e.Limits, options.Settings(false))
func (o *Options) Prepare(l LaunchOptions) (*experiment, error) {
	e := &experiment{Options: o, Dropped: map[string]int{}, Warnings: slices.Clone(o.Warnings)}
	tree, warning, err := o.ReadPlatform()
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
	if err := e.workload(l); err != nil {
		return nil, err
	}
	c, err := e.Workload.Convert(SpeedOptions{Reference: e.Tree.Reference})
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
	return e, nil
}

func (e *experiment) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

// ReadPlatform reads the platform named in the options. If its file does not exist, the example of the same name is
// used, with a warning; otherwise the warning is "".
func (o *Options) ReadPlatform() (tree *platform.Tree, warning string, err error) {
	if o.Platform == "" {
		return nil, "", errors.New("the options name no platform (platform_file_path)")
	}
	tree, err = platform.BuiltinLibrary().ReadTree(o.Platform)
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

// workload loads the workload: the custom one, or that of the options.
func (e *experiment) workload(l LaunchOptions) (err error) {
	if l.Custom != "" {
		if e.Workload, err = loadWorkload(l.Custom); err != nil {
			return err
		}
		return customize(e.Workload, e.Tree.Reference)
	}
	if e.Options.Workload == "" {
		return errors.New("launch: the options name no workload (workload_file_path), and no custom one is given")
	}
	return e.trace(l.Compat)
}

// trace loads the workload of the options: a Batsim workload (JSON) is used as it is, anything else is converted as a
// trace. Damage of the trace and a number of jobs below the requested one cause warnings.
func (e *experiment) trace(compat bool) (err error) {
	o := e.Options
	if name := strings.TrimSuffix(o.Workload, ".gz"); strings.EqualFold(filepath.Ext(name), ".json") {
		e.Workload, err = loadWorkload(o.Workload)
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
	resources := cmp.Or(o.Resources, e.Tree.Cores)
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
	e.Workload, e.Dropped = c.BatsimWorkload, c.Dropped
	return nil
}
