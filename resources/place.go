package resources

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// groupPrefix is the prefix of every cgroup name that this package creates.
const groupPrefix = "optimize-"

// quotaNotNeeded is the reason for setting no quota beside a CPU set. For a quota the job must be a group of its own in the
// CPU scheduler, and that slows processes that wait for each other: by 4–7 % two ranks of torchrun on two CPUs (Linux 6.18).
const quotaNotNeeded = "the CPU set bounds the CPU time"

// launchedWithAll is the reason for no quota of cgroup v1 on a job that loses CPUs later: it is in no group of the controller.
// Affinity alone holds it, which threads and processes that start later inherit.
const launchedWithAll = "the job was launched with all CPUs"

// needsQuota reports whether only a quota bounds the job's CPU time, once the CPU set is known.
func (e *enforcer) needsQuota() bool { return !e.s.Cpuset.available() && !e.wholeMachine() }

// addQuota sets a quota on a job that had all CPUs and gets fewer, where cgroup v2 offers one. If that fails, affinity alone
// holds, as after a launch.
func (e *enforcer) addQuota(cpus int) {
	if e.s.Offer == "" {
		return
	}
	control := filepath.Join(e.s.Offer, "cgroup.subtree_control")
	on, err := e.tree.read(control)
	if err == nil && !slices.Contains(strings.Fields(on), "cpu") {
		if err = e.tree.write(control, "+cpu"); err == nil {
			e.s.Enabled = append(e.s.Enabled, enabling{Dir: e.s.Offer, Controllers: []string{"cpu"}})
		}
	}
	if err == nil {
		err = e.writeQuota(e.s.Group, cpus)
	}
	if e.s.Offer = ""; err != nil {
		e.s.Quota.Why = err.Error()
		return
	}
	e.s.Quota = e.s.Group
}

// wholeMachine reports whether the job gets all CPUs that this process may use.
func (e *enforcer) wholeMachine() bool {
	return len(e.s.Allowed) > 0 && e.s.Allocation.CPUs >= len(e.s.Allowed)
}

// quotaPeriod is the CPU bandwidth period in microseconds, the kernel's default.
const quotaPeriod = 100000

// groupName converts a run id to a cgroup name that is a valid path element.
func groupName(runID string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, runID)
	if len(clean) > 100 {
		clean = clean[:100]
	}
	clean = cmp.Or(clean, "run")
	return groupPrefix + clean
}

// place creates the job's cgroups and sets their limits; unavailable controls keep the reason in Why.
func (e *enforcer) place() {
	defer exclusive(nameOn("cgroups", e.s.Roots.Cgroup))() // with Remove
	hs, err := hierarchies(e.s.Roots, e.tree)
	if err != nil {
		e.markUnavailable(fmt.Sprintf("the cgroup hierarchies cannot be seen: %v", err))
		return
	}
	if len(hs) == 0 {
		e.markUnavailable("this machine shows no cgroup hierarchy")
		return
	}
	e.markUnavailable("no mounted hierarchy offers this controller")
	for _, h := range hs {
		if h.version == 2 {
			e.placeV2(h)
		}
	}
	for _, cpuset := range []bool{true, false} { // first, because the quota depends on it
		for _, h := range hs {
			if h.version == 1 && h.has("cpuset") == cpuset {
				e.placeV1(h)
			}
		}
	}
	switch {
	case e.s.Cpuset.available():
		e.s.Quota, e.s.Offer = cgroupControl{Why: quotaNotNeeded}, ""
	case e.needsQuota(): // there is an offer if the CPU set refuses
		e.addQuota(e.s.Allocation.CPUs)
	}
}

// markUnavailable marks all controls as unavailable for the given reason.
func (e *enforcer) markUnavailable(why string) {
	p := cgroupControl{Why: why}
	e.s.Quota, e.s.Cpuset, e.s.Memory, e.s.Account, e.s.Group = p, p, p, p, p
}

// makeGroup creates the run's directory under parent. An existing empty one of an earlier launch of the run is
// recreated, so that its counters start at zero.
func (e *enforcer) makeGroup(parent string) (string, error) {
	base := filepath.Join(parent, groupName(e.s.RunID))
	dir := base
	for i := 2; ; i++ {
		err := e.tree.mkdir(dir)
		if errors.Is(err, fs.ErrExist) && removeTree(e.tree, dir) == nil {
			err = e.tree.mkdir(dir)
		}
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) || i > 100 {
			return "", err
		}
		dir = base + "." + strconv.Itoa(i) // the earlier one still has processes
	}
}

// placeV1 creates the group in one v1 hierarchy if the hierarchy has a required controller, and configures its
// controllers. A hierarchy with the controller cpu is not required for its accounting.
func (e *enforcer) placeV1(h hierarchy) {
	if h.has("cpu") && !e.needsQuota() {
		e.s.Quota.Why = launchedWithAll // of use if it loses some later
	}
	if !(h.has("cpu") && e.needsQuota()) && !h.has("cpuset") && !h.has("memory") && (h.has("cpu") || !h.has("cpuacct")) {
		return
	}
	dir, err := e.makeGroup(h.own)
	if err == nil && !e.tree.writable(filepath.Join(dir, "cgroup.procs")) {
		err = fmt.Errorf("%s is not writable", filepath.Join(dir, "cgroup.procs"))
		_ = e.tree.rmdir(dir)
	}
	set := func(controller string, p *cgroupControl, configure func(cgroupControl) error) {
		if !h.has(controller) {
			return
		}
		if err != nil {
			p.Why = fmt.Sprintf("cgroup v1 %s cannot be used: %v", controller, err)
			return
		}
		got := cgroupControl{Dir: dir, Version: 1}
		if cerr := configure(got); cerr != nil {
			*p = cgroupControl{Why: fmt.Sprintf("cgroup v1 %s refuses: %v", controller, cerr)}
			return
		}
		*p = got
	}
	set("cpuset", &e.s.Cpuset, func(p cgroupControl) error { return e.startCpusetV1(h, p) })
	if err == nil && h.has("cpuset") && !e.s.Cpuset.available() {
		// A process cannot enter a cpuset without CPUs and memory nodes.
		_ = e.tree.rmdir(dir)
		err = errors.New("its cpuset cannot be filled")
	}
	if e.needsQuota() {
		set("cpu", &e.s.Quota, func(p cgroupControl) error { return e.writeQuota(p, e.s.Allocation.CPUs) })
	}
	set("memory", &e.s.Memory, func(p cgroupControl) error {
		_ = e.tree.write(p.file("memory.oom_control"), "0") // OOM kills may be disabled in an enclosing cgroup
		return e.writeMemory(p, e.s.Allocation.Memory)
	})
	set("cpuacct", &e.s.Account, func(cgroupControl) error { return nil })
	if err != nil {
		return
	}
	e.s.Made = append(e.s.Made, dir)
	if !e.s.Group.available() {
		e.s.Group = cgroupControl{Dir: dir, Version: 1}
	}
}

// startCpusetV1 sets the memory nodes and CPUs of a new v1 cpuset, which is created empty.
func (e *enforcer) startCpusetV1(h hierarchy, p cgroupControl) error {
	mems, err := e.tree.read(filepath.Join(h.own, "cpuset.effective_mems"))
	if err != nil || mems == "" {
		if mems, err = e.tree.read(filepath.Join(h.own, "cpuset.mems")); err != nil {
			return err
		}
	}
	if err := e.tree.write(p.file("cpuset.mems"), mems); err != nil {
		return err
	}
	return e.writeCpuset(p, e.s.CPUIDs)
}

// v2Wanted are the required v2 controllers; cpu is required only for a quota.
var v2Wanted = []string{"cpuset", "memory", "cpu"}

// placeV2 creates the group in the v2 hierarchy, under the nearest cgroup that can delegate cpuset or cpu, and memory,
// or one of them. This is the own cgroup if it may have children with controllers. Because a v2 cgroup with
// processes may not, it is often the enclosing one, but never beyond a cgroup that limits this process.
func (e *enforcer) placeV2(h hierarchy) {
	parent, controllers, on, why := e.parentV2(h)
	explain := func(text string) {
		for _, c := range v2Wanted {
			if p := e.partV2(c); !p.available() && slices.Contains(h.controllers, c) {
				p.Why = text
			}
		}
	}
	if parent == "" {
		explain("cgroup v2 cannot be used: " + why)
		e.s.Group.Why = why
		return
	}
	dir, err := e.makeGroup(parent)
	if err == nil {
		if kind, kerr := e.tree.read(filepath.Join(dir, "cgroup.type")); kerr == nil && kind != "domain" {
			err = fmt.Errorf("a new cgroup there is of type %q", kind)
			_ = e.tree.rmdir(dir)
		}
	}
	if err != nil {
		e.disable(on)
		explain(fmt.Sprintf("cgroup v2 cannot be used: %v", err))
		e.s.Group.Why = err.Error()
		return
	}
	e.s.Made = append(e.s.Made, dir)
	if len(on.Controllers) > 0 {
		e.s.Enabled = append(e.s.Enabled, on)
	}
	explain("cgroup v2 does not hand this controller down here: " + why)
	g := cgroupControl{Dir: dir, Version: 2}
	e.s.Group, e.s.Account = g, g
	configure := map[string]func() error{
		"cpu":    func() error { return e.writeQuota(g, e.s.Allocation.CPUs) },
		"cpuset": func() error { return e.writeCpuset(g, e.s.CPUIDs) },
		"memory": func() error { return e.writeMemory(g, e.s.Allocation.Memory) },
	}
	for _, c := range controllers {
		p := e.partV2(c)
		*p = g
		if err := configure[c](); err != nil {
			*p = cgroupControl{Why: fmt.Sprintf("cgroup v2 %s refuses: %v", c, err)}
		}
	}
	if offered, _ := e.tree.read(filepath.Join(parent, "cgroup.controllers")); slices.Contains(strings.Fields(offered), "cpu") && !e.s.Quota.available() {
		e.s.Offer = parent
	}
}

// partV2 returns the control that a v2 controller provides.
func (e *enforcer) partV2(controller string) *cgroupControl {
	switch controller {
	case "cpu":
		return &e.s.Quota
	case "cpuset":
		return &e.s.Cpuset
	}
	return &e.s.Memory
}

// parentV2 chooses the parent of the job's cgroup. why contains the reasons against a better one; on contains the
// controllers enabled there.
func (e *enforcer) parentV2(h hierarchy) (parent string, controllers []string, on enabling, why string) {
	var reasons []string
	chain := h.chain()
	for i, dir := range chain {
		if i > 0 {
			if what := e.limitedV2(chain[i-1]); what != "" {
				reasons = append(reasons, fmt.Sprintf("%s limits %s and is not left", chain[i-1], what))
				break
			}
		}
		if !e.tree.writable(dir) || !e.tree.writable(filepath.Join(dir, "cgroup.procs")) {
			reasons = append(reasons, dir+" is not writable")
			continue
		}
		got, switched, err := e.delegateControllers(dir)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %v", dir, err))
		}
		if parent != "" && e.parentScore(got) <= e.parentScore(controllers) {
			e.disable(switched)
			continue
		}
		e.disable(on)
		parent, controllers, on = dir, got, switched
		if e.parentScore(got) == 2 {
			break
		}
	}
	return parent, controllers, on, strings.Join(reasons, "; ")
}

// parentScore counts the resources, CPUs and memory, that the controllers can hold the job to.
func (e *enforcer) parentScore(controllers []string) (n int) {
	if e.wholeMachine() || slices.Contains(controllers, "cpuset") || slices.Contains(controllers, "cpu") {
		n++
	}
	if slices.Contains(controllers, "memory") {
		n++
	}
	return n
}

// delegateControllers enables the required controllers for the children of dir and returns the available and the newly enabled
// ones.
func (e *enforcer) delegateControllers(dir string) (got []string, switched enabling, err error) {
	offered, err := e.tree.read(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, switched, err
	}
	control := filepath.Join(dir, "cgroup.subtree_control")
	already, err := e.tree.read(control)
	if err != nil {
		return nil, switched, err
	}
	switched.Dir = dir
	var errs []error
	for _, c := range v2Wanted {
		switch {
		case c == "cpu" && (slices.Contains(got, "cpuset") || e.wholeMachine()):
		case slices.Contains(strings.Fields(already), c):
			got = append(got, c)
		case slices.Contains(strings.Fields(offered), c):
			if werr := e.tree.write(control, "+"+c); werr != nil {
				errs = append(errs, fmt.Errorf("%s cannot be switched on for its children: %w", c, werr))
				continue
			}
			got = append(got, c)
			switched.Controllers = append(switched.Controllers, c)
		}
	}
	return got, switched, errors.Join(errs...)
}

// disable reverts delegateControllers.
func (e *enforcer) disable(on enabling) {
	for _, c := range on.Controllers {
		_ = e.tree.write(filepath.Join(on.Dir, "cgroup.subtree_control"), "-"+c)
	}
}

// limitedV2 returns the first limit that a cgroup itself sets; empty if it sets none.
func (e *enforcer) limitedV2(dir string) string {
	for _, name := range []string{"memory.max", "memory.high", "memory.swap.max", "pids.max"} {
		if s, err := e.tree.read(filepath.Join(dir, name)); err == nil && s != "max" {
			return name
		}
	}
	if _, ok := readQuota(e.tree, 2, dir); ok {
		return "cpu.max"
	}
	if s, err := e.tree.read(filepath.Join(dir, "cpuset.cpus")); err == nil && s != "" {
		return "cpuset.cpus"
	}
	return ""
}

// writeQuota sets the CPU bandwidth limit in CPUs.
func (e *enforcer) writeQuota(p cgroupControl, cpus int) error {
	quota := strconv.Itoa(cpus * quotaPeriod)
	if p.Version == 2 {
		return e.tree.write(p.file("cpu.max"), quota+" "+strconv.Itoa(quotaPeriod))
	}
	if err := e.tree.write(p.file("cpu.cfs_period_us"), strconv.Itoa(quotaPeriod)); err != nil {
		return err
	}
	return e.tree.write(p.file("cpu.cfs_quota_us"), quota)
}

// writeCpuset sets the CPUs of a cpuset.
func (e *enforcer) writeCpuset(p cgroupControl, ids []int) error {
	if len(ids) == 0 {
		return errors.New("the CPUs to choose from are unknown")
	}
	return e.tree.write(p.file("cpuset.cpus"), formatCPUList(ids))
}

// writeMemory sets the hard limit to Limits.MemoryMax and the soft limit to the allocation. Under v2 the soft limit
// throttles; if both are equal, only the hard limit is set, so that the kernel kills a job that exceeds it instead of
// throttling it to a standstill.
func (e *enforcer) writeMemory(p cgroupControl, soft GiB) error {
	hard := e.s.Limits.MemoryMax
	if p.Version == 1 {
		if hard > 0 {
			if err := e.tree.write(p.file("memory.limit_in_bytes"), bytesOf(hard)); err != nil {
				return err
			}
		}
		return e.writeSoft(p, soft)
	}
	if hard > 0 {
		if err := e.tree.write(p.file("memory.max"), bytesOf(hard)); err != nil {
			return err
		}
	}
	return e.writeSoft(p, soft)
}

// writeSoft sets the soft limit; under v2 one not below the hard limit is removed.
func (e *enforcer) writeSoft(p cgroupControl, soft GiB) error {
	hard := e.s.Limits.MemoryMax
	if p.Version == 1 {
		if soft <= 0 {
			return nil
		}
		return e.tree.write(p.file("memory.soft_limit_in_bytes"), bytesOf(soft))
	}
	if soft <= 0 || (hard > 0 && soft >= hard) {
		return e.tree.write(p.file("memory.high"), "max")
	}
	return e.tree.write(p.file("memory.high"), bytesOf(soft))
}

func bytesOf(g GiB) string { return strconv.FormatUint(g.Bytes(), 10) }
