package remote

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
)

// kill kills the job's processes. It writes no file: those of the run directory already belong to the next stretch.
func (n *node) kill() {
	tree := n.job.(launch.ProcessTree)
	for range 40 {
		pids, _ := tree.PIDs()
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-n.job.Done():
			return
		case <-time.After(nodeTick):
		}
	}
}

// receive handles a signal of the engine: SIGTERM begins its end of the stretch, SIGUSR1 announces the time limit; SIGUSR2
// only wakes the loop.
func (n *node) receive(s os.Signal) {
	notice := max(n.spec.Notice, 2*time.Second)
	switch {
	case s == unix.SIGUSR1 && n.leaving.IsZero():
		save := max(n.spec.Warn-notice, n.spec.Warn/2) // a short limit leaves less than notice for a save
		n.termAt = time.Now().Add(save)
		n.killAt = n.termAt.Add(min(notice, max(n.spec.Warn-save, 2*time.Second)) - time.Second)
	case s == unix.SIGTERM && !n.terminated:
		n.terminated = true
		n.termAt, n.killAt = time.Now().Add(notice/2), time.Now().Add(notice-time.Second)
	default:
		return
	}
	n.state.Signal = unix.SignalName(s.(syscall.Signal))
	if n.leaving.IsZero() {
		n.leaving, n.asked = time.Now(), n.saveAndStop()
		n.state.Asked = n.asked
	}
	if !n.asked && n.terminated { // it cannot save on request, but may on SIGTERM
		n.termAt = time.Now()
	}
	n.beat()
	n.escalate()
}

// saveAndStop asks the job to save and exit: through the observer, or by the checkpoint signal.
func (n *node) saveAndStop() bool {
	if n.spec.Reports != "" {
		if n.rank > 0 { // the first node asks; the others end with it
			return true
		}
		r := observe.NewReader(n.spec.Reports)
		for {
			if rows, err := r.Poll(time.Now()); err != nil || len(rows) == 0 {
				break
			}
		}
		if _, err := r.Request(observe.Request{Op: observe.SaveAndStop}); err == nil {
			return true
		}
	}
	return n.job.Checkpoint() == nil
}

// escalate sends SIGTERM to a job that has not exited in the time after the engine's signal.
func (n *node) escalate() {
	if n.leaving.IsZero() || n.stopped || time.Now().Before(n.termAt) {
		return
	}
	n.stopped = true
	go n.job.Stop(context.Background(), max(time.Until(n.killAt), 0))
}

// serve carries out what the agent has requested since the last call.
func (n *node) serve() {
	var q request
	if readJSON(n.shared, requestFile, &q) != nil {
		return // none yet, or a later version: the previous request remains in force
	}
	was := n.seen
	n.seen = q
	if q.Limit > was.Limit {
		n.job.SetStopAfter(q.StopAfter) // if it fails, the limit of the start remains
	}
	if q.Checkpoints > was.Checkpoints && errors.Is(n.job.Checkpoint(), launch.ErrNoCheckpoint) {
		n.seen.Checkpoints = was.Checkpoints // it is still starting: again later; the agent escalates if that has no effect
	}
	if tree, ok := n.job.(launch.ProcessTree); ok && q.Interrupts > was.Interrupts {
		tree.Signal(unix.SIGINT)
	}
	if q.Leave {
		n.receive(unix.SIGTERM)
	}
	if q.Stop != nil && (was.Stop == nil || *q.Stop < *was.Stop) {
		go n.job.Stop(context.Background(), *q.Stop)
	}
}

// finish records the end of the job and returns the exit code of the process.
func (n *node) finish() (int, error) {
	exit := n.awaitPeers(n.job.Exit())
	n.state.Phase, n.state.Exit = ended, &exit
	err := n.beat()
	for range 20 { // a full disk may have room again; the agent otherwise reads exit.json
		if err == nil {
			break
		}
		time.Sleep(nodeTick)
		err = n.beat()
	}
	switch {
	case n.state.Signal != "":
		return codeSaved, err
	case exit.Code >= 0:
		return exit.Code, err
	}
	return 128 + int(signalNumber(exit.Signal)), err
}

func signalNumber(name string) syscall.Signal {
	if s := unix.SignalNum(name); s > 0 {
		return s
	}
	return unix.SIGKILL
}
