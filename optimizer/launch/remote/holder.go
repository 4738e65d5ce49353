package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/optimizer/engine"
)

// An allocation that several stretches share is one job of the engine, whose process (the holder) starts the supervisor of
// each stretch, a tenant, as its child. It ends with the last one. Stretches that may share have the same engine.Place.Hold,
// a directory with one directory for each of its allocations, numbered from 1:
//
//	N/job.json      the request for the engine's job, and its id; written by the agent
//	N/waiting/KEY   a supervisor to be started; written by its agent, which may remove it
//	N/tenants/KEY   the same, claimed by the holder: the first to rename or remove the file decides
//	N/cancelled/KEY a tenant that is to be ended
//	N/ledger.json   who has been in the allocation, and for how long; written by the holder
const (
	jobFile      = "job.json"
	ledgerFile   = "ledger.json"
	waitingDir   = "waiting"
	tenantsDir   = "tenants"
	cancelledDir = "cancelled"
)

// holderArg is the first of the two arguments of Node with which it is the holder of an allocation, before its directory.
const holderArg = "holder"

// ledger is what a holder records. Times are those of its clock.
type ledger struct {
	Schema  int                 `json:"schema"`
	Began   time.Time           `json:"began"`
	Wall    time.Time           `json:"wall"`   // until which it is complete
	Closed  bool                `json:"closed"` // no further tenant is started
	Signal  string              `json:"signal,omitempty"`
	Tenants map[string]*tenancy `json:"tenants"` // by key
}

// tenancy is the stay of a stretch in an allocation.
type tenancy struct {
	Joined time.Time     `json:"joined"`
	Left   time.Time     `json:"left"` // zero: present
	Held   time.Duration `json:"held_ns"`
	Share  time.Duration `json:"share_ns"` // of Held: an equal part while several were present
}

// holder is the process of an allocation.
type holder struct {
	dir      string
	ledger   ledger
	children map[string]*exec.Cmd
	ended    chan string // keys of children that have ended
	counted  time.Time   // until when shares are counted
	written  time.Time
}

// holdAllocation starts the supervisors of the tenants of an allocation until none is left, and returns the exit code of
// the process.
func holdAllocation(dir string) int {
	runtime.LockOSThread() // children end with the thread that has started them
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(signals)
	h := &holder{dir: dir, children: map[string]*exec.Cmd{}, ended: make(chan string), counted: time.Now()}
	h.ledger = ledger{Schema: fileSchema, Began: wallClock(), Tenants: map[string]*tenancy{}}
	if err := h.restore(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return codeNode
	}
	tick := time.NewTicker(nodeTick)
	defer tick.Stop()
	for {
		h.claim()
		h.cancel()
		if len(h.children) == 0 && h.close() {
			return 0
		}
		if time.Since(h.written) > time.Second {
			h.write() // the next one may succeed
		}
		select {
		case s := <-signals:
			h.forward(s.(syscall.Signal))
		case key := <-h.ended:
			h.leave(key)
		case <-tick.C:
		}
	}
}

// restore continues the ledger of a job that the engine has started again: the supervisors of tenants that had not left
// record what became of their trainings.
func (h *holder) restore() error {
	var earlier ledger
	switch err := readJSON(h.dir, ledgerFile, &earlier); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	h.ledger.Began, h.ledger.Tenants = earlier.Began, earlier.Tenants
	for key, t := range h.ledger.Tenants {
		if t.Left.IsZero() {
			h.start(key)
		}
	}
	return nil
}

// count adds the time since the last call to the shares of those present.
func (h *holder) count() {
	now := time.Now()
	passed := now.Sub(h.counted)
	h.counted = now
	for key := range h.children {
		t := h.ledger.Tenants[key]
		t.Held, t.Share = t.Held+passed, t.Share+passed/time.Duration(len(h.children))
	}
	h.ledger.Wall = wallClock()
}

// write replaces the ledger.
func (h *holder) write() error {
	h.count()
	h.written = time.Now()
	return replace(h.dir, ledgerFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(h.ledger) })
}

// claim starts those who wait.
func (h *holder) claim() {
	for _, key := range names(filepath.Join(h.dir, waitingDir)) {
		if os.Rename(filepath.Join(h.dir, waitingDir, key), filepath.Join(h.dir, tenantsDir, key)) != nil {
			continue // withdrawn
		}
		h.count()
		h.ledger.Tenants[key] = &tenancy{Joined: wallClock()}
		h.start(key)
		h.write()
	}
}

// start starts the supervisor of a tenant.
func (h *holder) start(key string) {
	var r engine.Request
	err := readJSON(filepath.Join(h.dir, tenantsDir), key, &r)
	var out *os.File
	if err == nil {
		out, err = os.OpenFile(r.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	}
	if err == nil {
		defer out.Close()
		c := exec.Command(r.Argv[0], r.Argv[1:]...)
		c.Dir, c.Stdout, c.Stderr = r.Dir, out, out
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
		if err = c.Start(); err == nil {
			h.children[key] = c
			go func() {
				c.Wait() // how it ended is in the files of the stretch
				h.ended <- key
			}()
			return
		}
	}
	fmt.Fprintf(os.Stderr, "start the supervisor of %s: %v\n", key, err)
	h.ledger.Tenants[key].Left = wallClock()
}

// leave records that the supervisor of a tenant has ended.
func (h *holder) leave(key string) {
	h.count()
	delete(h.children, key)
	h.ledger.Tenants[key].Left = wallClock()
	h.write()
}

// close ends the allocation unless a tenant has come meanwhile.
func (h *holder) close() bool {
	h.ledger.Closed = true
	if err := h.write(); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESTALE) { // the directory was removed
		return true
	} else if err != nil { // a full disk: whether a tenant comes is not known
		return false
	}
	if h.claim(); len(h.children) == 0 {
		return true
	}
	h.ledger.Closed = false
	h.write()
	return false
}

// cancel ends tenants that are to be ended: the supervisor saves as before the end of the engine's job.
func (h *holder) cancel() {
	for _, key := range names(filepath.Join(h.dir, cancelledDir)) {
		os.Remove(filepath.Join(h.dir, cancelledDir, key))
		if c := h.children[key]; c != nil {
			c.Process.Signal(unix.SIGTERM)
			time.AfterFunc(busyTime+defaultNotice, func() { c.Process.Kill() }) // of no effect after its end
		}
	}
}

// forward passes a signal of the engine to all supervisors.
func (h *holder) forward(s syscall.Signal) {
	if s != unix.SIGUSR2 {
		h.ledger.Signal = unix.SignalName(s)
		h.write()
	}
	for _, c := range h.children {
		c.Process.Signal(s)
	}
}

// names returns the names of the files in a directory; none if it cannot be read.
func names(dir string) (out []string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), ".") { // being written
			out = append(out, e.Name())
		}
	}
	return out
}
