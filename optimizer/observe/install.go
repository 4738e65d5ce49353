package observe

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

//go:embed python/*.py python/optimize_observer/*.py
var module embed.FS

// Environment variables for the module. Children of the script other than Python do not receive them.
const (
	pathVariable   = "PYTHONPATH"
	switchVariable = "OPTIMIZE_OBSERVE" // "off" switches the observer off
	dirVariable    = "OPTIMIZE_OBSERVE_DIR"
	loaderPrefix   = "OPTIMIZE_OBSERVE_"
)

// Installation is the installed module and the directory for the reports of a launch.
type Installation struct {
	// Home is the directory to be placed first on PYTHONPATH.
	Home string
	// Reports is the directory in which processes write reports, for NewReader.
	Reports string
	// Settings are further variables of the module, as NAME=value: see its function start.
	Settings []string
	// Loader sets the workers of the script's data loaders; nil leaves them unchanged.
	Loader *Loader
}

// Loader contains the number of workers of PyTorch data loaders over map-style datasets, and the settings of workers.
// The sampler, batch size, shuffling and generator of a loader never change. Random augmentation drawn in the workers
// depends on their number.
type Loader struct {
	// Workers is num_workers; 0 loads in the training process.
	Workers int
	// Prefetch is prefetch_factor, in batches per worker; 0 leaves it unchanged.
	Prefetch int
	// Persistent and PinMemory are the arguments of the same names; nil leaves them unchanged.
	Persistent, PinMemory *bool
}

// Install writes the module below home and creates reports; both are private (directories 0700, files 0600). Runs may
// share home: existing files are kept, with the bytecode that Python cached beside them, which saves a training 0.1 s
// of compilation. Each version of the module has its own directory, named by its digest.
func Install(home, reports string) (in Installation, err error) {
	defer func() {
		if err != nil {
			in, err = Installation{}, fmt.Errorf("install observer: %w", err)
		}
	}()
	if home, err = filepath.Abs(home); err != nil {
		return in, err
	}
	if in.Reports, err = filepath.Abs(reports); err != nil {
		return in, err
	}
	in.Home = filepath.Join(home, moduleDigest())
	if err := os.MkdirAll(in.Reports, 0o700); err != nil {
		return in, err
	}
	source, err := fs.Sub(module, "python")
	if err != nil {
		return in, err
	}
	return in, fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(in.Home, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		text, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, text) {
			return nil
		}
		return replaceFile(target, text)
	})
}

// moduleDigest identifies the version of the embedded module.
var moduleDigest = sync.OnceValue(func() string {
	h := sha256.New()
	err := fs.WalkDir(module, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := module.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		panic(err) // embedded files are readable
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
})

// replaceFile atomically replaces a private file.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Environ returns base, a list of NAME=value, with the variables required for observation. If base contains
// OPTIMIZE_OBSERVE=off, it is returned unchanged.
func (in Installation) Environ(base []string) []string {
	path, out := in.Home, make([]string, 0, len(base)+6)
	for _, item := range base {
		name, value, _ := strings.Cut(item, "=")
		switch {
		case name == switchVariable && value == "off":
			return base
		case name == pathVariable:
			path = in.Home + string(os.PathListSeparator) + cmp.Or(value, in.Home) // twice: set and empty
		case strings.HasPrefix(name, loaderPrefix): // set by an enclosing agent
		default:
			out = append(out, item)
		}
	}
	out = append(out, pathVariable+"="+path, dirVariable+"="+in.Reports)
	out = append(out, in.Settings...)
	if in.Loader != nil {
		out = append(out, in.Loader.environ()...)
	}
	return out
}

// environ returns the environment variables of the loader settings.
func (l *Loader) environ() []string {
	out := []string{loaderPrefix + "WORKERS=" + strconv.Itoa(l.Workers)}
	if l.Prefetch > 0 {
		out = append(out, loaderPrefix+"PREFETCH="+strconv.Itoa(l.Prefetch))
	}
	for name, value := range map[string]*bool{"PERSISTENT": l.Persistent, "PIN_MEMORY": l.PinMemory} {
		if value != nil {
			out = append(out, loaderPrefix+name+"="+map[bool]string{true: "1", false: "0"}[*value])
		}
	}
	return out
}
