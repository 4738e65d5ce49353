package observe

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

//go:embed hook/optimize_hook.py
var hookModule string

// WriteHook writes optimize_hook.py, a single file that a training can import to report its progress by the protocol of
// the observer. It contains the sources of the observer, so that both report alike.
func WriteHook(w io.Writer) error {
	text := strings.Replace(hookModule, "@VERSION@", moduleDigest(), 1)
	b := bytes.NewBufferString(strings.TrimSuffix(text, "_SOURCES = {}\n"))
	b.WriteString("_SOURCES = {\n")
	const home = "python/optimize_observer"
	entries, err := fs.ReadDir(module, home)
	if err != nil {
		return fmt.Errorf("write python module: %w", err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".py")
		if name == "children" { // only a process that is observed from its start passes the observer on
			continue
		}
		source, err := fs.ReadFile(module, path.Join(home, e.Name()))
		if err != nil {
			return fmt.Errorf("write python module: %w", err)
		}
		full := "optimize_observer." + name
		if name == "__init__" {
			full = "optimize_observer"
		}
		fmt.Fprintf(b, "    %q: r'''%s''',\n", full, source)
	}
	b.WriteString("}\n")
	_, err = w.Write(b.Bytes())
	return err
}
