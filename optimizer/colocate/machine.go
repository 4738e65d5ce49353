package colocate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clockTick is the frequency of the times in /proc: 100 per second on every Linux (USER_HZ).
const clockTick = 100

// usage is the state of a node at one time.
type usage struct {
	at          time.Time
	idle, steal float64 // CPU-seconds of the node's CPUs since the start of the machine
	own         float64 // CPU-seconds of the programs measured here since the start of the session
}

// readCPUTimes returns the idle and stolen CPU-seconds of a set of CPUs from the content of /proc/stat.
func readCPUTimes(stat string, cpus []int) (idle, steal float64, err error) {
	found := 0
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		id, err := strconv.Atoi(f[0][3:])
		if err != nil || !slices.Contains(cpus, id) {
			continue
		}
		found++
		var v [9]float64
		for k := 1; k < 9; k++ {
			if v[k], err = strconv.ParseFloat(f[k], 64); err != nil {
				return 0, 0, fmt.Errorf("read /proc/stat: %s: %q is not a number", f[0], f[k])
			}
		}
		idle, steal = idle+(v[4]+v[5])/clockTick, steal+v[8]/clockTick
	}
	if found != len(cpus) {
		return 0, 0, fmt.Errorf("read /proc/stat: %d of the CPUs %v", found, cpus)
	}
	return idle, steal, nil
}

// cpuSeconds returns the CPU time of a living process, all its threads and the descendants that it has waited for.
func cpuSeconds(pid int) float64 {
	var ts unix.Timespec
	clock := int32(^pid<<3 | 2) // CPUCLOCK_SCHED of a process, see clock_getcpuclockid
	seconds := 0.0
	if unix.ClockGettime(clock, &ts) == nil {
		seconds = float64(ts.Nano()) / 1e9
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 14 {
			user, _ := strconv.ParseFloat(f[13], 64)
			system, _ := strconv.ParseFloat(f[14], 64)
			seconds += (user + system) / clockTick
		}
	}
	return seconds
}

// descendants returns a process and all its living descendants.
func descendants(pid int) []int {
	all := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, descendants(child)...)
			}
		}
	}
	return all
}

// usable returns the CPUs that this process may use.
func usable() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	var ids []int
	for id := range int(unsafe.Sizeof(set)) * 8 {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// pin restricts a thread to CPUs; 0 is the calling one.
func pin(thread int, cpus []int) error {
	var set unix.CPUSet
	for _, id := range cpus {
		set.Set(id)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("pin to CPUs %v: %w", cpus, err)
	}
	return nil
}

// pinSelf restricts this process, and the threads that it starts, to CPUs: to observe a node must not take its time.
func pinSelf(cpus []int) {
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, thread := range threads {
		if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
			pin(id, cpus) // an error: it has ended
		}
	}
}

// without returns the elements of a that are not in b.
func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(id int) bool { return slices.Contains(b, id) })
}

// spawner starts processes on a thread of its own: the affinity of a process is that of the thread that starts it, and
// the kernel kills it when that thread ends, also if this process is killed.
type spawner struct {
	requests chan func()
	guard    *guard
}

func newSpawner() (*spawner, error) {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, with its affinity, ends with the goroutine
		for f := range s.requests {
			f()
		}
	}()
	var err error
	if s.guard, err = newGuard(); err != nil {
		close(s.requests)
	}
	return s, err
}

// close ends the spawner; processes must have been stopped.
func (s *spawner) close() {
	close(s.requests)
	s.guard.close()
}

// do runs f, which starts a process, with an affinity.
func (s *spawner) do(cpus []int, f func() error) error {
	result := make(chan error)
	s.requests <- func() {
		if err := pin(0, cpus); err != nil {
			result <- err
			return
		}
		result <- f()
	}
	return <-result
}

// guard is a shell that outlives this process: when its input ends, it kills the process groups whose numbers it was
// sent and not told to forget.
type guard struct {
	input *os.File
	wait  func() error
}

const guardScript = `all=" "
while read -r what group; do
  case $what in
  add) all="$all$group " ;;
  del) all="${all%% $group *} ${all#* $group }" ;;
  esac
done
for group in $all; do kill -s KILL -- "-$group" 2>/dev/null; done`

func newGuard() (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", guardScript}, &os.ProcAttr{
		Files: []*os.File{r}, Env: []string{"PATH=/usr/bin:/bin"}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("start /bin/sh: %w", err)
	}
	return &guard{w, func() error { _, err := p.Wait(); return err }}, nil
}

func (g *guard) send(what string, group int) error {
	_, err := fmt.Fprintf(g.input, "%s %d\n", what, group)
	return err
}

// close kills what is left of the groups and ends the guard.
func (g *guard) close() error { return errors.Join(g.input.Close(), g.wait()) }
