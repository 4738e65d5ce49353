package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"trainopt/optimizer/engine"
)

// tenant is the engine as a stretch sees it that shares its allocation with others: the stretch is submitted to an
// allocation, which it enters and leaves, and pays its share of. A signal reaches all who share the allocation.
type tenant struct {
	engine.Engine
	hold string // directory of the allocations
	key  string // of the stretch
	self []string
}

var _ engine.Engine = (*tenant)(nil)

// engineOf returns the engine as a stretch sees it.
func (l *Launcher) engineOf(s *engine.Stretch) engine.Engine {
	if s.Place.Hold == "" {
		return l.Engine
	}
	return &tenant{l.Engine, s.Place.Hold, s.Key, l.Self}
}

// allocationJob is the engine's job of an allocation.
type allocationJob struct {
	Schema int    `json:"schema"`
	Key    string `json:"key"` // that of the first tenant
	ID     string `json:"id"`  // empty: the engine has not accepted it
}

// submitting holds a *sync.Mutex for each directory of allocations: it admits one submission at a time in this process.
var submitting sync.Map

// Submit implements engine.Engine: it adds the stretch to the latest allocation, or submits another one.
func (t *tenant) Submit(ctx context.Context, r engine.Request) (string, error) {
	lock, _ := submitting.LoadOrStore(t.hold, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	dir, j := t.find()
	if dir != "" && j.ID != "" {
		return j.ID, nil
	}
	last := t.latest()
	if dir == "" && last > 0 {
		id, err := t.join(ctx, t.numbered(last), r)
		if id != "" || err != nil {
			return id, err
		}
	}
	if dir == "" {
		t.tidy(last)
		dir = t.numbered(last + 1)
		for _, d := range []string{waitingDir, tenantsDir, cancelledDir} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
				return "", err
			}
		}
		j = allocationJob{Schema: fileSchema, Key: r.Key}
		if err := errors.Join(writeJSON(dir, jobFile, j), enter(dir, r)); err != nil {
			return "", err
		}
	}
	r.Argv, r.Dir, r.Output = append(slices.Clone(t.self), holderArg, dir), dir, filepath.Join(dir, logFile)
	id, err := t.Engine.Submit(ctx, r)
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return "", err
	}
	j.ID = id
	return id, writeJSON(dir, jobFile, j)
}

// join adds a stretch to an allocation and returns the id of its job; empty if that ends.
func (t *tenant) join(ctx context.Context, dir string, r engine.Request) (string, error) {
	var j allocationJob
	if readJSON(dir, jobFile, &j) != nil || j.ID == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	waiting := filepath.Join(dir, waitingDir, r.Key)
	entered, asked, absent := false, time.Time{}, 0
	for {
		l := readLedger(dir)
		over := l.Closed || l.Signal != ""
		if !over && time.Since(asked) > 2*time.Second {
			list, err := t.Engine.List(ctx, j.Key)
			if err != nil && !entered {
				return "", err
			}
			asked = time.Now()
			if err == nil {
				switch at := slices.IndexFunc(list, func(s engine.Status) bool { return s.ID == j.ID }); {
				case at < 0: // an answer may be older than the job
					absent++
					over = absent >= 3
				case list[at].State == engine.Pending && entered:
					return j.ID, nil // it enters when the job starts
				default:
					absent, over = 0, list[at].State == engine.Ended || list[at].State == engine.Ending
				}
			}
		}
		switch {
		case over && !entered:
			return "", nil
		case over && os.Remove(waiting) == nil:
			return "", nil
		case !entered:
			if err := enter(dir, r); err != nil {
				return "", err
			}
			entered, asked = true, time.Time{}
			continue
		}
		if _, err := os.Stat(waiting); errors.Is(err, os.ErrNotExist) {
			return j.ID, nil
		}
		select {
		case <-ctx.Done():
			if os.Remove(waiting) == nil {
				return "", fmt.Errorf("%w: the job %s, whose allocation is shared, has not started the stretch", engine.ErrUnreachable, j.ID)
			}
			return j.ID, nil
		case <-time.After(nodeTick / 5):
		}
	}
}

// keptAllocations is how long the directory of an allocation is kept after its end, for late accounts.
const keptAllocations = 30 * 24 * time.Hour

// tidy removes the directories of allocations that ended long ago, except that of the last one, which continues the numbers.
func (t *tenant) tidy(last int) {
	for n := 1; n < last; n++ {
		if l := readLedger(t.numbered(n)); !l.Wall.IsZero() && time.Since(l.Wall) > keptAllocations {
			os.RemoveAll(t.numbered(n)) // the next one may succeed
		}
	}
}

// joinWithin limits the wait for the holder of an allocation.
const joinWithin = time.Minute

// enter writes what the holder of an allocation starts. Its environment is that of the job, which may be secret.
func enter(dir string, r engine.Request) error {
	r.Env = nil
	return writeJSON(filepath.Join(dir, waitingDir), r.Key, r)
}

// List implements engine.Engine.
func (t *tenant) List(ctx context.Context, _ ...string) ([]engine.Status, error) {
	dir, j := t.find()
	if dir == "" {
		return nil, nil
	}
	list, err := t.Engine.List(ctx, j.Key)
	list = slices.DeleteFunc(list, func(s engine.Status) bool { return j.ID != "" && s.ID != j.ID })
	if err != nil || len(list) == 0 {
		return nil, err
	}
	st := list[len(list)-1]
	st.Key = t.key
	l := readLedger(dir)
	switch own := l.Tenants[t.key]; {
	case own == nil && st.State == engine.Running:
		st.State, st.Started = engine.Pending, time.Time{}
	case own != nil:
		if own.Joined.Sub(l.Began) > time.Second {
			st.Started = time.Time{} // that of the allocation
		}
		if !own.Left.IsZero() && st.State != engine.Ended {
			st.State, st.Raw = engine.Ended, "COMPLETED"
		}
	}
	return []engine.Status{st}, nil
}

// Cancel implements engine.Engine. The job of the allocation is cancelled if no other stretch is in it.
func (t *tenant) Cancel(ctx context.Context, id string) error {
	dir, _ := t.find()
	if dir == "" {
		return nil
	}
	withdrawn := os.Remove(filepath.Join(dir, waitingDir, t.key)) == nil
	l := readLedger(dir)
	if own := l.Tenants[t.key]; own != nil && !own.Left.IsZero() {
		return nil
	}
	others := len(names(filepath.Join(dir, waitingDir)))
	for key, o := range l.Tenants {
		if key != t.key && o.Left.IsZero() {
			others++
		}
	}
	switch {
	case others == 0:
		return t.Engine.Cancel(ctx, id)
	case withdrawn:
		return nil
	}
	return writeJSON(filepath.Join(dir, cancelledDir), t.key, struct{}{})
}

// Account implements engine.Engine. A stretch that leaves others behind pays what the holder has counted; those who are
// in the allocation at its end pay in equal parts what the engine's account then contains beyond the shares counted, so
// that all shares together are the account.
func (t *tenant) Account(ctx context.Context, _ ...string) ([]engine.Life, error) {
	dir, j := t.find()
	if dir == "" || j.ID == "" {
		return nil, nil
	}
	l := readLedger(dir)
	own := l.Tenants[t.key]
	if own == nil && (j.Key != t.key || len(l.Tenants)+len(names(filepath.Join(dir, waitingDir))) > 0) { // it was never in the allocation
		return []engine.Life{{ID: j.ID, Key: t.key, State: "CANCELLED", Final: true, Ended: time.Now(), Share: new(time.Duration)}}, nil
	}
	last, sum := l.last(), time.Duration(0)
	for _, o := range l.Tenants {
		sum += o.Share
	}
	if own != nil && !slices.Contains(last, own) && l.Signal == "" {
		return []engine.Life{{ID: j.ID, Key: t.key, State: "COMPLETED", Final: true, Started: own.Joined, Ended: own.Left, Elapsed: own.Held, Share: &own.Share}}, nil
	}
	lives, err := t.Engine.Account(ctx, j.ID)
	life := whole(lives, j.Key)
	if err != nil || life == nil {
		return nil, err
	}
	life.Key = t.key
	if own == nil {
		return []engine.Life{*life}, nil
	}
	total := life.Elapsed
	if time.Since(l.Wall) < settledAfter && life.State != "NODE_FAIL" && (total-sum).Abs() > agreement {
		life.Final = false // the accounting is incomplete after a restart of its database
	}
	share := own.Share
	if slices.Contains(last, own) {
		share += (total - sum) / time.Duration(len(last))
	}
	share = max(share, 0)
	if life.Elapsed, life.Share = own.Held, &share; own.Joined.Sub(l.Began) > time.Second {
		life.Started = own.Joined
	}
	if !slices.Contains(last, own) {
		life.Ended = own.Left
	}
	return []engine.Life{*life}, nil
}

// share returns what the holder has counted for the stretch; 0: nothing.
func (t *tenant) share() time.Duration {
	dir, _ := t.find()
	if own := readLedger(dir).Tenants[t.key]; own != nil {
		return own.Share
	}
	return 0
}

// last returns those who are present or, if none is, the one who has left last.
func (l *ledger) last() (out []*tenancy) {
	var latest *tenancy
	for _, o := range l.Tenants {
		if o.Left.IsZero() {
			out = append(out, o)
		} else if latest == nil || o.Left.After(latest.Left) {
			latest = o
		}
	}
	if len(out) == 0 && latest != nil {
		out = append(out, latest)
	}
	return out
}

// readLedger returns the ledger of an allocation; an empty one before it has begun.
func readLedger(dir string) (l ledger) {
	readJSON(dir, ledgerFile, &l)
	return l
}

func (t *tenant) numbered(n int) string { return filepath.Join(t.hold, strconv.Itoa(n)) }

// latest returns the number of the latest allocation; 0: none.
func (t *tenant) latest() (last int) {
	for _, name := range names(t.hold) {
		if n, err := strconv.Atoi(name); err == nil {
			last = max(last, n)
		}
	}
	return last
}

// find returns the allocation that the stretch was submitted to, and its job; "" if it was to none.
func (t *tenant) find() (dir string, j allocationJob) {
	for n := t.latest(); n > 0; n-- {
		dir = t.numbered(n)
		for _, where := range []string{waitingDir, tenantsDir} {
			if _, err := os.Stat(filepath.Join(dir, where, t.key)); err == nil && readJSON(dir, jobFile, &j) == nil {
				return dir, j
			}
		}
	}
	return "", j
}
