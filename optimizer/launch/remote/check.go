package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

// Check tests whether an engine can run trainings with state in a directory: it lists the nodes, and runs a job of a
// second that writes a file below the directory, reads it here, and looks for the job in the accounting. It waits for
// the job until ctx ends and cancels it then.
func Check(ctx context.Context, eng engine.Engine, dir string, w Wish, extra []string) []resources.Finding {
	title := strings.ToUpper(eng.Name()[:1]) + eng.Name()[1:]
	var list []resources.Finding
	add := func(name string, status resources.Status, found, costs, do string) {
		list = append(list, resources.Finding{Name: title + " " + name, Status: status, Found: found, Cost: costs, Do: do})
	}
	offers, err := eng.Offers(ctx)
	if err != nil {
		add("nodes", resources.Missing, err.Error(), "no job can be planned there", "check the commands and the controller (sinfo)")
		return list
	}
	offer, err := w.Choose(offers, false)
	if err != nil {
		add("nodes", resources.Missing, err.Error(), "no job can be planned there", "name another partition by --engine-arg=--partition=…")
		return list
	}
	add("nodes", resources.OK, describe(offer), "", "")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		add("test job", resources.Missing, err.Error(), "", "choose a state directory that can be written (--state-dir)")
		return list
	}
	mark := rand.Text()
	file := filepath.Join(dir, "check-"+mark)
	defer os.Remove(file)
	defer os.Remove(file + ".out")
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	offer.GPUs = 0
	place := offer.Place(resources.Allocation{CPUs: 1})
	place.Memory = 0.0625
	id, err := eng.Submit(ctx, engine.Request{Key: "optimize.check." + mark, Comment: "optimize doctor",
		Argv: []string{"/bin/sh", "-c", `test -x "$1" && "$1" version > "$2" 2>&1`, "check", self, file}, Dir: "/", Output: file + ".out", Place: place,
		TimeLimit: time.Minute, Extra: extra})
	if err != nil {
		add("test job", resources.Missing, err.Error(), "no training can be started there", "check partition, account and limits (--engine-arg)")
		return list
	}
	began := time.Now()
	life, err := awaitEnd(ctx, eng, id)
	switch {
	case life == nil:
		eng.Cancel(context.WithoutCancel(ctx), id)
		add("test job", resources.Warn, fmt.Sprintf("job %s has not ended within %s, or is not in the accounting (%v)", id, time.Since(began).Round(time.Second), err),
			"the end of a job is known from its node only, and its cost is not confirmed", "try again when the queue is shorter; check sacct")
	default:
		add("accounting", resources.OK, fmt.Sprintf("job %s: %s, %v on %s", id, life.State, life.Elapsed, strings.Join(life.Nodes, " ")), "", "")
	}
	switch data, err := readSoon(file); {
	case err == nil && len(data) > 0:
		add("shared files", resources.OK, "written on a node, read here: "+dir, "", "")
	case life != nil:
		add("shared files", resources.Missing, fmt.Sprintf("what a node wrote below %s cannot be read here, or this program (%s) cannot be run there", dir, self),
			"agent and node cannot communicate", "put the state directory (--state-dir) and the program on a file system that all nodes share")
	}
	return list
}

// awaitEnd waits for the final account of a job; nil if it does not come before ctx ends.
func awaitEnd(ctx context.Context, eng engine.Engine, id string) (*engine.Life, error) {
	for {
		lives, err := eng.Account(ctx, id)
		if n := len(lives); err == nil && n > 0 && lives[n-1].Final {
			return &lives[n-1], nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(usual.poll):
		}
	}
}

// readSoon reads a file that another machine has written: a network file system may show it late.
func readSoon(path string) (data []byte, err error) {
	for range 20 {
		if data, err = os.ReadFile(path); err == nil && len(data) > 0 {
			return data, nil
		}
		time.Sleep(usual.poll)
	}
	return data, err
}
