package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
)

// memory is a disk that can lose its power: unsynced content may then be lost. The data of a file is stored by Sync,
// its name and renames by SyncDir; before that, any prefix of the renames may be stored, in their order, as on a
// journaling file system.
type memory struct {
	names   map[string]*content // as visible to the running program
	stable  map[string]*content // names as of the last SyncDir
	pending []func(map[string]*content)

	steps  int   // operations done so far
	stopAt int   // the operation that fails; 0 means never
	fail   error // errPower: this and every later operation has no effect
	dead   bool
	log    []string
}

type content struct{ data, stable []byte }

var (
	errPower = errors.New("power lost")
	errFull  = errors.New("no space left on device")
)

func newMemory() *memory {
	return &memory{names: map[string]*content{}, stable: map[string]*content{}}
}

// step counts an operation and reports whether it is to fail.
func (m *memory) step(what string) error {
	if m.dead {
		return errPower
	}
	m.steps++
	m.log = append(m.log, what)
	if m.steps == m.stopAt {
		m.dead = m.fail == errPower
		return m.fail
	}
	return nil
}

func (m *memory) change(f func(map[string]*content)) {
	f(m.names)
	m.pending = append(m.pending, f)
}

func (m *memory) Create(path string) (file, error) {
	if err := m.step("create " + filepath.Base(path)); err != nil {
		return nil, err
	}
	c := &content{}
	m.change(func(n map[string]*content) { n[path] = c })
	return &memoryFile{m, c}, nil
}

func (m *memory) ReadFile(path string) ([]byte, error) {
	if m.dead {
		return nil, errPower
	}
	c, ok := m.names[path]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
	}
	return c.data, nil
}

func (m *memory) Rename(from, to string) error {
	if err := m.step(fmt.Sprintf("rename %s %s", filepath.Base(from), filepath.Base(to))); err != nil {
		return err
	}
	if m.names[from] == nil {
		return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
	}
	m.change(func(n map[string]*content) {
		if n[from] != nil {
			n[to] = n[from]
			delete(n, from)
		}
	})
	return nil
}

func (m *memory) Remove(path string) error {
	if err := m.step("remove " + filepath.Base(path)); err != nil {
		return err
	}
	m.change(func(n map[string]*content) { delete(n, path) })
	return nil
}

func (m *memory) SyncDir(string) error {
	if err := m.step("sync directory"); err != nil {
		return err
	}
	for _, f := range m.pending {
		f(m.stable)
	}
	m.pending = nil
	return nil
}

type memoryFile struct {
	m *memory
	c *content
}

func (f *memoryFile) Write(p []byte) (int, error) {
	if err := f.m.step("write"); err != nil {
		if f.m.fail == errFull {
			f.c.data = append(f.c.data, p[:len(p)/2]...) // half of it fitted
			return len(p) / 2, err
		}
		return 0, err
	}
	f.c.data = append(f.c.data, p...)
	return len(p), nil
}

func (f *memoryFile) Sync() error {
	if err := f.m.step("sync"); err != nil {
		return err
	}
	f.c.stable = f.c.data
	return nil
}

func (f *memoryFile) Close() error { return f.m.step("close") }

// afterPowerLoss returns every disk content possible after a restart: each prefix of the pending changes of names,
// and for unsynced data none, half or all of it.
func (m *memory) afterPowerLoss() []*memory {
	var disks []*memory
	for n := 0; n <= len(m.pending); n++ {
		names := maps.Clone(m.stable)
		for _, f := range m.pending[:n] {
			f(names)
		}
		for _, kept := range []float64{0, 0.5, 1} {
			d := newMemory()
			for path, c := range names {
				data := c.stable
				if len(c.stable) != len(c.data) {
					data = c.data[:int(float64(len(c.data))*kept)]
				}
				d.names[path] = &content{data, data}
			}
			d.stable = maps.Clone(d.names)
			disks = append(disks, d)
		}
	}
	return disks
}
