package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// digests maps the keys of commands to the digests of their outputs.
type digests map[string]string

func digest(output string) string {
	sum := sha256.Sum256([]byte(output))
	return hex.EncodeToString(sum[:12])
}

const digestsHead = `# Digest of the normalised output of each command of commands.txt; written by "make oracle-update".
`

func readDigests(path string) (digests, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return digests{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("read digests: %w", err)
	}
	out := digests{}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		sum, key, found := strings.Cut(line, "  ")
		if !found {
			return nil, fmt.Errorf("read digests: line %d: no digest and command", i+1)
		}
		out[key] = sum
	}
	return out, nil
}

func (d digests) write(path string) error {
	var b strings.Builder
	b.WriteString(digestsHead)
	for _, key := range slices.Sorted(maps.Keys(d)) {
		fmt.Fprintf(&b, "%s  %s\n", d[key], key)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// outputs is a folder of normalised outputs, named by their digests.
type outputs string

// openOutputs creates the folder below the user's cache directory.
func openOutputs() (outputs, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "optimize", "oracle")
	return outputs(dir), os.MkdirAll(dir, 0o755)
}

func (o outputs) path(sum string) string { return filepath.Join(string(o), sum+".txt") }

// keep stores an output and returns its digest. It is safe for concurrent use by several processes.
func (o outputs) keep(output string) (string, error) {
	sum := digest(output)
	temp, err := os.CreateTemp(string(o), "new-")
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(output)
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", err
	}
	return sum, os.Rename(temp.Name(), o.path(sum))
}

// diffLines is the maximum number of printed lines of a difference.
const diffLines = 60

// difference returns a unified diff of two stored outputs, truncated to diffLines lines.
func (o outputs) difference(want, got string) string {
	if _, err := os.Stat(o.path(want)); err != nil {
		return fmt.Sprintf("no copy of the earlier output is kept here: run the oracle on the commit that wrote its digest\nnow: %s\n", o.path(got))
	}
	out, err := exec.Command("diff", "-u", o.path(want), o.path(got)).Output()
	if len(out) == 0 {
		return fmt.Sprintf("compare %s with %s: %v\n", o.path(want), o.path(got), err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	if len(lines) > diffLines {
		lines = append(lines[:diffLines], fmt.Sprintf("… %d more lines\n", len(lines)-diffLines))
	}
	return strings.Join(lines, "")
}
