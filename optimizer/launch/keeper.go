package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// keeperTick is the interval at which the keeper reads control.json, in case a signal was lost. Tests make it long.
var keeperTick = time.Second

// KeeperMain runs the processes between the agent and the job: the standby, which the agent starts, its keeper, and
// the trampoline. args are the arguments that follow Local.Self on the command line. It returns the exit code of the
// process: 0 if the exit of the job is recorded.
func KeeperMain(args []string) int {
	runtime.GOMAXPROCS(1) // the process only waits and copies
	debug.SetGCPercent(50)
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	switch role {
	case execTrampoline:
		return execMain()
	case keepRole:
		return keeperMain()
	}
	return standbyMain(args)
}

func keeperMain() int {
	k := &keeper{}
	if err := k.setUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if f := k.start(); f != nil {
		return k.startFailed(f)
	}
	k.run()
	return k.finish()
}

// keeper supervises one job.
type keeper struct {
	spec    spec
	dir     string
	self    process
	handle  Handle
	hello   *os.File
	enforce enforcer
	missing []string

	out, err  *rotated
	pumps     sync.WaitGroup
	readers   []stream // stdout and stderr of the job
	writers   []int    // the job's ends of the same pipes, until the job has inherited them
	main      process
	began     time.Duration
	beforeKiB int64 // peak memory of the trampoline
	watch     watch
	seen      unix.Stat_t // of the control file at the last read
	wakeAt    func(time.Duration)
	poke      chan os.Signal
	term      chan os.Signal // SIGTERM, in a Slurm job
	announced bool
	ended     chan event // sent by reap
	oomStart  uint64     // of the job's cgroup
	oomNear   oomCounter
	oomBefore *uint64  // oomNear before the job; nil: unknown
	oomLately []uint64 // oomNear at the last two ticks
	samples   int      // number of memory samples
	mainRan   time.Duration
	outlived  []stat // processes of the job that ran on after its main process had ended by itself

	mu     sync.Mutex // excludes the reaper while a signal is sent
	reaped bool
	status syscall.WaitStatus
}

// run announces the job and supervises it until its tree is empty.
func (k *keeper) run() {
	s := started{Schema: fileSchema, Handle: k.handle, At: time.Now().Add(k.began - Monotonic()), Began: k.began, Missing: k.missing}
	k.brief(s)
	k.step(Monotonic(), event{}) // the time limit holds from here on
	if err := writeJSON(filepath.Join(k.dir, startedFile), s); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	json.NewEncoder(k.hello).Encode(keeperMessage{Started: &s}) // the agent may be dead
	k.keep()
}

// keep supervises the running job until its tree is empty. Each signal, exit or tick becomes one step of the watch,
// whose actions are carried out.
func (k *keeper) keep() {
	k.ended = make(chan event, 2)
	go k.reap()
	ReleaseMemory()

	timer := time.NewTimer(0)
	var tick time.Duration
	for k.watch.phase != over {
		var e event
		select {
		case <-k.poke:
		case <-k.term:
			k.announceEnd("its Slurm job was ended by SIGTERM")
		case e = <-k.ended:
		case <-timer.C:
		}
		now := Monotonic()
		if now >= tick {
			tick = now + keeperTick
			k.sample()
			if o := k.spec.Owner; o.PID > 0 && !o.alive() && k.watch.stopAt != 1 {
				fmt.Fprintf(os.Stderr, "the process %d with which the job ends has died\n", o.PID)
				k.watch.stopAt = 1 // long ago
			}
		}
		k.step(now, e)
		timer.Reset(k.watch.wake(Monotonic(), keeperTick))
	}
}

// step applies an event and the agent's request to the watch, carries out its actions, and sets the waker.
func (k *keeper) step(now time.Duration, e event) {
	e.control = k.wanted()
	k.act(k.watch.step(now, e))
	k.wakeAt(k.watch.wakeStopped(now))
}

// sample records the values of the running job that the verdict and the totals need, and dates the lock file as the last
// sign of life of a job that is killed together with its supervisors.
func (k *keeper) sample() {
	now := time.Now()
	os.Chtimes(filepath.Join(k.dir, lockFile), now, now)
	if n, ok := k.oomNear.read(); ok {
		k.oomLately = append(k.oomLately[max(len(k.oomLately)-1, 0):], n)
	}
	if k.enforce != nil {
		k.enforce.Memory() // updates the peak
		k.samples++
	}
}

// wanted returns the agent's request, nil if it has not changed since the last call.
func (k *keeper) wanted() *control {
	path := filepath.Join(k.dir, controlFile)
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || (st.Ino == k.seen.Ino && st.Mtim == k.seen.Mtim && st.Size == k.seen.Size) {
		return nil
	}
	k.seen = st
	var c control
	if err := readJSON(path, &c); err != nil {
		fmt.Fprintln(os.Stderr, err) // the previous request remains in force
		return nil
	}
	return &c
}

// act carries out the actions that the watch has decided.
func (k *keeper) act(do []action) {
	for _, a := range do {
		switch a {
		case askCheckpoint:
			if !k.main.catches(unix.SIGUSR1) || k.main.signal(unix.SIGUSR1) != nil {
				k.act(k.watch.step(Monotonic(), event{noCheckpoint: true}))
			}
		case termGroup:
			k.announceEnd("it was asked to end by SIGTERM")
			k.mu.Lock()
			if !k.reaped { // otherwise the id of the group may have been reused
				unix.Kill(-k.main.PID, unix.SIGTERM)
				unix.Kill(-k.main.PID, unix.SIGCONT) // a stopped process cannot die of SIGTERM
			}
			k.mu.Unlock()
		case termOutside:
			k.termEach(func(s stat) bool { return s.Group != k.main.PID })
		case termOthers:
			if k.watch.cause == itself {
				k.outlived = k.livingProcesses()
			}
			k.termEach(func(stat) bool { return true })
		case killAll:
			if k.enforce != nil {
				k.enforce.Kill()
			}
			for _, s := range k.livingProcesses() {
				s.signal(unix.SIGKILL)
			}
		}
	}
}

// announceEnd records once that the job was asked to end. If all processes of a Slurm job are killed before the exit is
// recorded, the record then shows the reason.
func (k *keeper) announceEnd(detail string) {
	if k.announced {
		return
	}
	k.announced = true
	e := ended{Schema: fileSchema, Handle: k.handle, Exit: Exit{Reason: Stopped, Code: -1, Detail: detail, At: time.Now(), Ran: Monotonic() - k.began}}
	if err := writeJSON(filepath.Join(k.dir, endingFile), e); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (k *keeper) termEach(which func(stat) bool) {
	for _, s := range k.livingProcesses() {
		if which(s) {
			s.signal(unix.SIGTERM)
			s.signal(unix.SIGCONT)
		}
	}
}

// livingProcesses lists the living processes of the job: those below the keeper and those in its cgroup.
func (k *keeper) livingProcesses() []stat {
	list, err := tree(k.self.PID)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return withCgroup(list, k.enforce)
}

// reap reaps every process that ends, until the tree is empty: the keeper, a subreaper, becomes the parent of all
// orphans, so "no children" means that no process of the job is left.
func (k *keeper) reap() {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // ECHILD
			k.ended <- event{allEnded: true}
			return
		}
		pid := pidOf(&info)
		var status unix.WaitStatus
		k.mu.Lock()
		if _, err := unix.Wait4(pid, &status, 0, nil); err == nil && pid == k.main.PID {
			k.reaped, k.status, k.mainRan = true, syscall.WaitStatus(status), Monotonic()-k.began
		}
		k.mu.Unlock()
		if pid == k.main.PID {
			k.ended <- event{mainEnded: true}
		}
	}
}

// finish drains the output and records the exit.
func (k *keeper) finish() int {
	now := Monotonic()
	o := outcome{cause: k.watch.cause, killed: k.watch.killed, hurried: k.watch.hurried, stuck: k.livingProcesses(), outlived: k.outlived}
	k.mu.Lock()
	o.reaped, o.status = k.reaped, k.status
	mainRan := k.mainRan
	k.mu.Unlock()
	o.unseen = !o.reaped && !k.main.alive()
	if k.watch.askedAt > 0 {
		o.sinceAsk = now - k.watch.askedAt
	}
	o.oomKills, o.oomNearby = k.oomKills()
	o.lostBytes = k.drain()

	e := o.verdict()
	e.At, e.Ran = time.Now(), now-k.began
	e.MemoryHeld = o.oomKills == 0 && k.memoryHeld()
	if e.Outlived != "" {
		e.MainRan = mainRan
	}
	k.usage(&e, o.oomKills > 0)
	if _, err := resources.ReleasePower(k.dir); err != nil { // before the record: the agent may then start the next job
		fmt.Fprintln(os.Stderr, err)
	}
	code := k.record(ended{Exit: e})
	if e, err := openEnforcer(k.dir); e != nil && err == nil { // the agent may have added to it
		k.enforce = e
	}
	if k.enforce != nil {
		if err := k.enforce.Remove(); err != nil && len(o.stuck) == 0 {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// fewSamples is the number of memory samples, one a second, below which the peak may have been missed.
const fewSamples = 10

// beforeMargin is the memory, KiB, that the trampoline may use after it has reported its peak.
const beforeMargin = 2048

// oomKills counts the processes of the job that the kernel has killed for lack of memory, as counted by the job's
// cgroup, whether the limit or the machine was exhausted. Without a cgroup, nearby reports whether the kernel has
// killed any process near the job in the last two ticks.
func (k *keeper) oomKills() (own uint64, nearby bool) {
	if k.enforce != nil {
		if n, ok := k.enforce.OOMKills(); ok {
			return n - min(n, k.oomStart), false
		}
	}
	n, ok := k.oomNear.read()
	return 0, ok && len(k.oomLately) > 0 && n > k.oomLately[0]
}

// memoryHeld reports whether the kernel is known to have killed no process near the job for lack of memory since it began.
func (k *keeper) memoryHeld() bool {
	n, ok := k.oomNear.read()
	return ok && k.oomBefore != nil && n == *k.oomBefore
}

// drain waits for the last output and returns the total number of bytes lost. A hanging file system does not delay
// the exit record beyond three times drainWithin.
func (k *keeper) drain() (lost int64) {
	for _, r := range k.readers {
		r.SetReadDeadline(time.Now().Add(drainWithin))
	}
	done := make(chan struct{})
	go func() { k.pumps.Wait(); close(done) }()
	select {
	case <-done:
		k.out.close()
		k.err.close()
		return k.out.lost + k.err.lost
	case <-time.After(3 * drainWithin):
		fmt.Fprintln(os.Stderr, "the last output of the job could not be written in time")
		return 0
	}
}

// drainWithin limits the reading of output after the end; it expires only if a writer outside the tree, or one that
// cannot be killed, keeps the pipe open.
const drainWithin = time.Second

// usage sets the job's peak memory and its processor time.
//
// The memory is the cgroup's without page cache, sampled each second, or the kernel's own peak if the limit was
// reached. Without a cgroup, and for a job too short to sample well if it is larger, it is the largest resident set of a
// single process (PeakResident), which is never below that of the trampoline, some 40 MiB: PeakAtMost reports that it is hardly
// more.
func (k *keeper) usage(e *Exit, oom bool) {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &ru) == nil {
		cpu := time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds()
		peak := float64(ru.Maxrss) / (1 << 20) // the kernel gives KiB
		e.CPUSeconds, e.PeakMemoryGiB, e.PeakResident, e.PeakAtMost = &cpu, &peak, true, ru.Maxrss <= k.beforeKiB+beforeMargin
	}
	if k.enforce == nil {
		return
	}
	if cpu, ok := k.enforce.CPUSeconds(); ok {
		e.CPUSeconds = &cpu
	}
	_, peak, ok := k.enforce.Memory()
	gib := float64(peak)
	if mark, marked := k.enforce.KernelPeak(); oom && marked {
		gib, e.PeakMemoryGiB = float64(mark), nil
	} else if !ok {
		return
	}
	if k.samples >= fewSamples || e.PeakMemoryGiB == nil || gib > *e.PeakMemoryGiB {
		e.PeakMemoryGiB, e.PeakResident, e.PeakAtMost = &gib, false, false
	}
}

// record sends the end to the agent and writes exit.json into the reserved space. It returns the keeper's exit code.
func (k *keeper) record(e ended) int {
	e.Schema, e.Handle = fileSchema, k.handle
	if e.Start == nil {
		json.NewEncoder(k.hello).Encode(keeperMessage{Ended: &e}) // also reaches the agent when the file cannot be written
	}
	data, err := json.Marshal(e)
	if err == nil {
		err = writeReserved(filepath.Join(k.dir, exitFile), append(data, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Remove(filepath.Join(k.dir, endingFile))
	return 0
}
